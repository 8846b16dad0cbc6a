// SPDX-License-Identifier: Apache-2.0
//
// node_heads.js - says on standard output what Node's HTTP server makes of each head in the file given.
//
// Input: records of a 4-byte big-endian length and that many bytes. Output: a JSON object a line, in order. Each
// head goes to a real http.Server over a stream of its own, in one write, so that everything a client could reach
// is in the answer: the parser (llhttp) and the checks that the server adds. No sockets are opened.
'use strict';
const fs = require('fs');
const http = require('http');
const { Duplex } = require('stream');

const answers = [];
const server = http.createServer({
  maxHeaderSize: 32768, headersTimeout: 0, requestTimeout: 0, connectionsCheckingInterval: 1 << 30, keepAlive: false,
});
server.maxHeadersCount = 0;
server.timeout = 0;

function note(stream, answer) {
  if (stream.answer === undefined)
    stream.answer = answer;
}

function accept(request, response) {
  const fields = [];
  for (let i = 0; i < request.rawHeaders.length; i += 2)
    fields.push([request.rawHeaders[i], request.rawHeaders[i + 1]]);
  note(request.socket, {
    verdict: 'done', minor: request.httpVersionMinor, major: request.httpVersionMajor, method: request.method,
    target: request.url, keep: response === null ? null : response.shouldKeepAlive, fields,
  });
  request.socket.request = request;
}

server.on('request', accept);
server.on('checkContinue', accept);
server.on('checkExpectation', accept);
server.on('connect', (request) => accept(request, null));
server.on('clientError', (error, stream) => {
  note(stream, { verdict: 'bad', code: error.code, why: error.reason || error.message });
});

function open(bytes) {
  const stream = new Duplex({
    read() {},
    write(chunk, encoding, done) {
      // Node answers some heads by itself, without an event: HTTP/1.1 without Host.
      const line = chunk.toString('latin1').split('\r\n')[0];
      if (/^HTTP\/1\.1 [45]/.test(line))
        note(stream, { verdict: 'bad', code: 'ANSWERED', why: line });
      done();
    },
  });
  stream.setTimeout = stream.setNoDelay = stream.setKeepAlive = stream.ref = stream.unref = () => stream;
  stream.on('error', () => {});
  server.emit('connection', stream);
  if (bytes.length > 0)
    stream.push(bytes);
  return stream;
}

async function main() {
  const input = fs.readFileSync(process.argv[2]);
  const heads = [];
  for (let at = 0; at < input.length;) {
    const length = input.readUInt32BE(at);
    heads.push(input.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  const lines = [];
  for (let first = 0; first < heads.length; first += 500) {
    const streams = heads.slice(first, first + 500).map(open);
    for (let turn = 0; turn < 4; turn++)
      await new Promise(setImmediate);
    for (const stream of streams) {
      if (stream.request !== undefined)
        stream.answer.body = !stream.request.complete; // whether Node waits for one
      lines.push(JSON.stringify(stream.answer || { verdict: stream.destroyed ? 'closed' : 'more' }));
      stream.destroy();
    }
  }
  process.stdout.write(lines.join('\n') + '\n', () => process.exit(0));
}

main();
