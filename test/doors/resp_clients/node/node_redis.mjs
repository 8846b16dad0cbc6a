// SPDX-License-Identifier: Apache-2.0
// node-redis at the Redis door; see ../README.md.
import { createClient } from 'redis';

const [port, password] = process.argv.slice(2);
const client = createClient({ socket: { host: '127.0.0.1', port: Number(port), reconnectStrategy: false }, password });
client.on('error', () => {}); // connect() says it too

const ask = (...words) => client.sendCommand(words);
const errorOf = (call) => call.then(() => { throw new Error('no error came'); }, (error) => error.message);
// Maps of RESP3 are objects without a prototype, or Maps.
const plain = (_, value) => (value instanceof Map ? Object.fromEntries(value) : value);

async function talk() {
  const ping = await client.ping();
  const info = String(await ask('CLIENT', 'INFO'));
  const result = {
    ping,
    resp: Number(/resp=(\d)/.exec(info)[1]),
    allowed: await ask('WEIR.CHECK', 'COST', '20', 'ATTR', 'tenant', 'node'),
    denied: await ask('WEIR.CHECK', 'ATTR', 'tenant', 'node'),
    peeked: await ask('WEIR.PEEK', 'ATTR', 'tenant', 'node-fresh'),
    throttled: [await ask('CL.THROTTLE', 'node', '0', '1', '1000'), await ask('CL.THROTTLE', 'node', '0', '1', '1000')],
    pipeline: await client.multi().addCommand(['PING']).addCommand(['CL.THROTTLE', 'node-pipeline', '15', '30', '60'])
      .addCommand(['WEIR.CHECK', 'ATTR', 'tenant', 'node-pipeline']).execAsPipeline(),
    error: await errorOf(ask('NOSUCH', 'word')),
    refused: await errorOf(ask('WEIR.CHECK', 'COST', 'many', 'ATTR', 'tenant', 'node')),
  };
  await client.close();
  return result;
}

const result = await client.connect().then(talk, (error) => ({ failed: error.message }));
console.log(JSON.stringify(result, plain));
