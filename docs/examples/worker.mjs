// A worker in Node.js, without packages: answers each batch with what `infer` makes of it.
//
//     node worker.mjs /run/model.sock
//
// docs/reference/frames.md says what travels. Of MessagePack, integers beyond 2^53 and extensions
// (timestamps) are left out; a library of your choice has them.

import { connect } from "node:net";

// Put the model here: as many results as items, in their order; an Error is that item's own.
const infer = (items) =>
  items.map((x) => (typeof x === "number" ? 2 * x : new TypeError("expected a number")));

// ------------------------------------------------------------------------------------ MessagePack

const sized = (short, limit, codes, length) => {
  if (length < limit) return Buffer.from([short | length]);
  const head = Buffer.alloc(5);
  head[0] = codes;
  head.writeUInt32BE(length, 1);
  return head;
};

function pack(value) {
  if (value === null || value === undefined) return Buffer.from([0xc0]);
  if (typeof value === "boolean") return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === "number") {
    if (Number.isInteger(value) && value >= 0 && value < 128) return Buffer.from([value]);
    const whole = Number.isSafeInteger(value);
    const number = Buffer.alloc(9);
    number[0] = whole ? 0xd3 : 0xcb;
    if (whole) number.writeBigInt64BE(BigInt(value), 1);
    else number.writeDoubleBE(value, 1);
    return number;
  }
  if (typeof value === "string") {
    const text = Buffer.from(value);
    return Buffer.concat([sized(0xa0, 32, 0xdb, text.length), text]);
  }
  if (value instanceof Uint8Array) return Buffer.concat([sized(0, 0, 0xc6, value.length), value]);
  if (Array.isArray(value))
    return Buffer.concat([sized(0x90, 16, 0xdd, value.length), ...value.map(pack)]);
  const entries = Object.entries(value);
  return Buffer.concat([sized(0x80, 16, 0xdf, entries.length), ...entries.flat().map(pack)]);
}

function unpack(bytes) {
  let at = 0;
  const take = (length) => bytes.subarray(at, (at += length));
  const uint = (length) => take(length).readUIntBE(0, length);
  const list = (length) => Array.from({ length }, next);
  const map = (length) => Object.fromEntries(list(length * 2).reduce(pairs, []));
  const pairs = (all, each, index) => (index % 2 ? all.at(-1).push(each) : all.push([each]), all);
  function next() {
    const code = uint(1);
    if (code < 0x80) return code;
    if (code < 0x90) return map(code & 0x0f);
    if (code < 0xa0) return list(code & 0x0f);
    if (code < 0xc0) return take(code & 0x1f).toString();
    if (code >= 0xe0) return code - 0x100;
    switch (code) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return take(uint(1 << (code - 0xc4)));
      case 0xca: return take(4).readFloatBE();
      case 0xcb: return take(8).readDoubleBE();
      case 0xcc: case 0xcd: case 0xce: return uint(1 << (code - 0xcc));
      case 0xcf: return Number(take(8).readBigUInt64BE());
      case 0xd0: return take(1).readInt8();
      case 0xd1: return take(2).readInt16BE();
      case 0xd2: return take(4).readInt32BE();
      case 0xd3: return Number(take(8).readBigInt64BE());
      case 0xd9: case 0xda: case 0xdb: return take(uint(1 << (code - 0xd9))).toString();
      case 0xdc: case 0xdd: return list(uint(2 << (code - 0xdc)));
      case 0xde: case 0xdf: return map(uint(2 << (code - 0xde)));
      default: throw new Error(`MessagePack type 0x${code.toString(16)} is not supported here`);
    }
  }
  return next();
}

// ------------------------------------------------------------------------------- the conversation

const frame = (payload) => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(payload.length);
  return Buffer.concat([length, payload]);
};

function answer(jobs) {
  let values;
  try {
    values = infer(jobs.map(([, item]) => item));
  } catch (error) {
    return { type: "failure", error: String(error) };
  }
  const answers = jobs.map(([job], index) => [job, values[index]]);
  const failed = ([, value]) => value instanceof Error;
  return {
    type: "results",
    results: answers.filter((each) => !failed(each)),
    errors: answers.filter(failed).map(([job, error]) => [job, String(error)]),
  };
}

let socket;
let leaving = false;

function visit(pause) {
  let chunks = [];
  let wanted = 4; // bytes until the next frame is whole, or its length is known
  const say = (message) => socket.write(frame(pack(message)));
  socket = connect(process.argv[2], () => {
    pause = 100;
    say({ type: "hello", protocol: 1, name: `node:${process.pid}` });
    socket.write(frame(Buffer.alloc(0))); // idle
  });
  socket.on("data", (data) => {
    chunks.push(data);
    if ((wanted -= data.length) > 0) return;
    let received = Buffer.concat(chunks);
    while (received.length >= 4 && received.length >= 4 + received.readUInt32BE()) {
      const end = 4 + received.readUInt32BE();
      const message = unpack(received.subarray(4, end));
      received = received.subarray(end);
      if (message.type === "batch") say(answer(message.jobs));
      else console.error(`hung up on: ${message.reason}`);
    }
    chunks = [received];
    wanted = 4 + (received.length >= 4 ? received.readUInt32BE() : 0) - received.length;
  });
  socket.on("error", (error) => console.error(error.message));
  socket.on("close", () => {
    if (leaving) process.exit(0);
    setTimeout(visit, pause, Math.min(2 * pause, 10_000));
  });
}

process.once("SIGTERM", () => {
  leaving = true;
  if (socket.connecting || socket.destroyed) process.exit(0);
  socket.write(frame(pack({ type: "bye" }))); // a batch that crosses this is still to be answered
});

visit(100);
