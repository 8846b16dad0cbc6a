// SPDX-License-Identifier: Apache-2.0
// ioredis at the Redis door; see ../README.md.
import { Redis } from 'ioredis';

const [port, password] = process.argv.slice(2);
const client = new Redis({ port: Number(port), password, lazyConnect: true, retryStrategy: () => null });
let told; // by the server: connect() itself only says that the connection is closed
client.on('error', (error) => { told ??= error.message; });

const ask = (...words) => client.call(...words);
const errorOf = (call) => call.then(() => { throw new Error('no error came'); }, (error) => error.message);
const plain = (_, value) => (value instanceof Map ? Object.fromEntries(value) : value);

async function talk() {
  const ping = await client.ping();
  const pipeline = await client.pipeline().call('PING').call('CL.THROTTLE', 'io-pipeline', 15, 30, 60)
    .call('WEIR.CHECK', 'ATTR', 'tenant', 'io-pipeline').exec();
  return {
    ping,
    resp: Number(/resp=(\d)/.exec(await ask('CLIENT', 'INFO'))[1]),
    allowed: await ask('WEIR.CHECK', 'COST', 20, 'ATTR', 'tenant', 'io'),
    denied: await ask('WEIR.CHECK', 'ATTR', 'tenant', 'io'),
    peeked: await ask('WEIR.PEEK', 'ATTR', 'tenant', 'io-fresh'),
    throttled: [await ask('CL.THROTTLE', 'io', 0, 1, 1000), await ask('CL.THROTTLE', 'io', 0, 1, 1000)],
    pipeline: pipeline.map(([error, reply]) => (error ? error.message : reply)),
    error: await errorOf(ask('NOSUCH', 'word')),
    refused: await errorOf(ask('WEIR.CHECK', 'COST', 'many', 'ATTR', 'tenant', 'io')),
  };
}

const result = await client.connect().then(talk).catch((error) => ({ failed: told ?? error.message }));
console.log(JSON.stringify(result, plain));
client.disconnect();
