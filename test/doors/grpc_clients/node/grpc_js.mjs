// SPDX-License-Identifier: Apache-2.0
// @grpc/grpc-js at the gRPC door; see ../README.md.
import grpc from '@grpc/grpc-js';

const [port, call, slow, unknown, token] = process.argv.slice(2);
const bytes = (text) => Buffer.from(text, 'hex');
const same = (value) => value;
const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
const should = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';
const health = '/grpc.health.v1.Health/';

function ask(path, message, { wait, seconds = 20 } = {}) {
  const metadata = new grpc.Metadata();
  if (token) metadata.set('authorization', `Bearer ${token}`);
  if (wait) metadata.set('weir-wait-ms', String(wait));
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, same, same, message, metadata, { deadline: Date.now() + seconds * 1000 },
      (error, reply) => (error ? reject(error) : resolve(reply.toString('hex'))));
  });
}
const codeOf = (...words) => ask(...words).then(() => 0, (error) => error.code);

async function talk() {
  const answers = [];
  for (let i = 0; i < 3; i += 1) answers.push(await ask(should, bytes(call)));
  const watch = client.makeServerStreamRequest(`${health}Watch`, same, same, Buffer.alloc(0));
  const watched = await new Promise((resolve, reject) => {
    watch.once('data', (message) => resolve(message.toString('hex')));
    watch.on('error', reject);
  });
  watch.removeAllListeners('error').on('error', () => {}); // it is cancelled by us
  watch.cancel();
  const many = await Promise.all(Array.from({ length: 500 }, () => ask(should, bytes(call))));
  return {
    answers,
    health: await ask(`${health}Check`, Buffer.alloc(0)),
    watched,
    unknown: await codeOf('/weir.v1/No', Buffer.alloc(0)),
    nobody: await codeOf(`${health}Check`, bytes(unknown)),
    first: await codeOf(should, bytes(slow)),
    late: await codeOf(should, bytes(slow), { wait: 50000, seconds: 0.3 }),
    waited: await ask(should, bytes(slow), { wait: 50000 }),
    many: many.length,
  };
}

talk().then((got) => { console.log(JSON.stringify(got)); client.close(); },
  (error) => { console.error(error); process.exit(1); });
