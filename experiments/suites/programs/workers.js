// Worker threads that share memory, and compress and hash on libuv's pool; prints sums.
const { Worker, isMainThread, workerData, parentPort } = require('node:worker_threads');
const zlib = require('node:zlib'), crypto = require('node:crypto'), fs = require('node:fs');
if (isMainThread) {
  const shared = new SharedArrayBuffer(8), cells = new Int32Array(shared);
  let ended = 0, sum = 0;
  for (let n = 0; n < 8; n++) {
    const worker = new Worker(__filename, { workerData: { shared, n } });
    worker.on('message', (m) => { sum += m; });
    worker.on('exit', (code) => {
      if (code) throw new Error('worker ended with ' + code);
      if (++ended === 8) console.log(sum, cells[0], cells[1]);
    });
  }
} else {
  const cells = new Int32Array(workerData.shared);
  for (let i = 0; i < 20000; i++) Atomics.add(cells, 0, 1);
  for (let i = 0; i < 50; i++) Atomics.wait(cells, 1, 77, 1);
  let left = 60;
  for (let i = 0; i < 20; i++) {
    const done = () => { if (--left === 0) parentPort.postMessage(workerData.n + 1); };
    crypto.pbkdf2('a', 'b', 500, 32, 'sha512', done);
    zlib.deflate(Buffer.alloc(50000, i), done);
    fs.readFile(__filename, done);
  }
}
