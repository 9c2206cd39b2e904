// A server and a client on Node's HTTP/2, which is nghttp2: `node http2_node.js serve`, or `node http2_node.js ask URL NAME`.
// The server sends back what it got; the client prints what came back, as JSON.
'use strict';
const crypto = require('crypto');
const http2 = require('http2');

const digest = (data) => crypto.createHash('sha256').update(data).digest('hex');
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function serve() {
  let sessions = 0;
  const server = http2.createServer({ settings: { maxConcurrentStreams: 100 } });
  server.on('session', () => { sessions += 1; });
  server.on('stream', async (stream, headers) => {
    const parts = [];
    let trailers = {};
    stream.on('error', () => {});
    stream.on('trailers', (fields) => { trailers = fields; });
    if (headers['x-slow']) await pause(Number(headers['x-slow']));
    stream.on('data', (part) => parts.push(part));
    stream.on('end', () => {
      const body = Buffer.concat(parts);
      const fields = { ':status': 200, 'x-long': headers['x-long'] || '', 'x-sum': trailers['x-sum'] || '', 'x-sessions': String(sessions) };
      fields.trailer = 'x-digest';
      stream.respond(fields, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'x-digest': digest(body) }));
      stream.end(body);
      // Streams that are open go on.
      if (headers['x-goaway']) stream.session.close();
    });
  });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
}

// One request; reads what comes after `slow` milliseconds.
function ask(client, { path = '/api/x', fields = {}, body, trailers, slow = 0 }) {
  return new Promise((resolve, reject) => {
    const head = { ':path': path, ':method': body === undefined ? 'GET' : 'POST', ...fields };
    if (trailers) head.trailer = Object.keys(trailers).join(', ');
    const stream = client.request(head, { endStream: body === undefined, waitForTrailers: Boolean(trailers) });
    const found = { parts: [] };
    stream.on('error', reject);
    stream.on('response', (headers) => { found.headers = headers; });
    stream.on('trailers', (headers) => { found.trailers = headers; });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    setTimeout(() => stream.on('data', (part) => found.parts.push(part)), slow);
    stream.on('close', () => {
      const content = Buffer.concat(found.parts);
      resolve({
        status: found.headers && found.headers[':status'],
        long: found.headers && found.headers['x-long'],
        sum: found.headers && found.headers['x-sum'],
        sessions: found.headers && Number(found.headers['x-sessions']),
        size: content.length,
        // Of the content as it came, and as the server says that it was.
        digests: [digest(content), found.trailers && found.trailers['x-digest']],
      });
    });
    if (body !== undefined) stream.end(body);
  });
}

const CASES = {
  // Heads that fit in no frame, both ways.
  continuation: async (client) => [await ask(client, { fields: { 'x-long': '~'.repeat(20_000) } })],
  trailers: async (client) => [await ask(client, { body: 'abc', trailers: { 'x-sum': '1' } })],
  // A megabyte to a server, and back to a client, that read late.
  upload: async (client) => [await ask(client, { fields: { 'x-slow': '500' }, body: Buffer.alloc(1 << 20, 'u'), slow: 1000 })],
  streams: (client) => Promise.all(Array.from({ length: 100 }, (_, number) => ask(client, { body: Buffer.alloc(5000, String(number)) }))),
  // The upstream sends its connection away again and again, while others wait for their answers.
  goaway: async (client) => {
    const found = [];
    for (let number = 0; number < 20; number += 1) {
      const pair = [ask(client, { body: 'a', fields: { 'x-goaway': '1' } }), ask(client, { body: 'b', fields: { 'x-slow': '50' } })];
      found.push(...await Promise.all(pair));
    }
    return found;
  },
  // The gateway ends in good order: what was asked is answered, and the client is told.
  drain: async (client) => {
    const told = new Promise((resolve) => { client.on('goaway', (code) => resolve(code)); });
    const slow = ask(client, { body: 'late', fields: { 'x-slow': '1500' } });
    await ask(client, {});
    console.log('begun');
    const answer = await slow;
    return [{ ...answer, goaway: await told }];
  },
};

async function main([mode, url, name]) {
  if (mode === 'serve') return serve();
  const client = http2.connect(url);
  client.on('error', (error) => { console.error(error); process.exit(1); });
  await new Promise((resolve) => { client.on('remoteSettings', resolve); });
  console.log(JSON.stringify(await CASES[name](client)));
  client.destroy();
  return undefined;
}

main(process.argv.slice(2)).catch((error) => { console.error(error); process.exit(1); });
