'use strict';
// The candidate's driver for Node 18 and newer; docs/candidate-protocol.md is what it
// keeps. It reads one request at a time from descriptor 3, acts on the pushed code,
// and answers on descriptor 4. It shares its process with that code, so whatever it
// answers is a claim. What it uses is taken before the first request: a pushed
// polyfill must not break the exchange.
//
// An entry is "path/below/a/source.js:name" or "…:Class.method". By keyword: the
// function is called with one object. A number without a fraction travels as an
// integer (Node has one kind of number), an object as a map of its own enumerable
// properties, whatever its class.

const {readSync, writeSync, closeSync, openSync, existsSync, realpathSync} = require('node:fs');
const {resolve, sep} = require('node:path');
const {pathToFileURL} = require('node:url');
const {Module} = require('node:module');
const {types} = require('node:util');

const [REQUESTS, REPLIES] = [3, 4];
const [MAX_FRAME, MAX_DEPTH, MAX_SHOWN, MAX_HEX] = [8 << 20, 64, 4096, 131072];

const [tree, library] = process.argv.slice(2);
const chdir = process.chdir.bind(process);
const exit = process.reallyExit.bind(process);
const parseJSON = JSON.parse;
const quoteJSON = JSON.stringify;
const allocate = Buffer.alloc;
const bytesOf = Buffer.from;
const {isArray} = Array;
const {isView} = ArrayBuffer;
const {is, defineProperty} = Object;
const {apply, get, has, ownKeys, getOwnPropertyDescriptor, getPrototypeOf} = Reflect;
const PLAIN = Object.prototype;
const {isInteger, isSafeInteger} = Number;
const {iterator: ITERATOR, asyncIterator: ASYNC} = Symbol;
const floats = new DataView(new ArrayBuffer(8));
const realRandom = Math.random;
const hexOf = (view) => apply(Buffer.prototype.toString, bytesOf(view.buffer, view.byteOffset, view.byteLength), ['hex']);
const mapEntries = take(Map.prototype, 'forEach');
const setItems = take(Set.prototype, 'forEach');
const dateTime = take(Date.prototype, 'getTime');

function take(prototype, name) {
  const method = prototype[name];
  return (self, ...args) => apply(method, self, args);
}

// Bad ends a request that cannot be answered; Shown one whose code does not load.
class Bad extends Error {}
class Shown extends Error {
  constructor(what, text) {
    super(text);
    this.what = what;
  }
}

let base = tree; // the pushed tree, once it is opened
let sources = [];
let entry = null;
let seeded = null; // the generator of a row that has a seed

// Math.random is one function for good: the pushed code may keep it.
Math.random = function random() {
  return seeded ? seeded() : realRandom();
};

// What a promise of the pushed code ends in that nobody waits for is no answer.
process.on('unhandledRejection', () => {});

async function serve() {
  for (let text = readFrame(); text !== null; text = readFrame()) {
    writeFrame('{"id":"' + text.slice(7, 23) + '","r":' + (await answer(text.slice(29, -1))) + '}');
  }
  exit(0);
}

// ---- frames

function readExactly(length) {
  const bytes = allocate(length);
  for (let done = 0; done < length; ) {
    const n = readSync(REQUESTS, bytes, done, length - done, null);
    if (n === 0) return null;
    done += n;
  }
  return bytes;
}

function readFrame() {
  const head = readExactly(4);
  const text = head && readExactly(head.readUInt32BE(0));
  return text && text.latin1Slice();
}

function writeFrame(text) {
  const bytes = allocate(text.length + 4);
  bytes.writeUInt32BE(text.length, 0);
  bytes.latin1Write(text, 4);
  for (let done = 0; done < bytes.length; ) done += writeSync(REPLIES, bytes, done, bytes.length - done);
}

// ---- requests

const verbs = {__proto__: null, open, load, entry: find, row};

async function answer(text) {
  try {
    const [verb, made, changed, gone, ...args] = parseJSON(text);
    if (!verbs[verb]) throw new Bad('no verb ' + verb);
    if (made.length + changed.length + gone.length > 0) throw new Bad('objects are not shared with this driver');
    const reply = '["ok",' + (await verbs[verb](...args)) + ',[],[]]';
    if (reply.length > MAX_FRAME - 64) throw new Bad('more than 8 MiB in one reply');
    return reply;
  } catch (e) {
    if (e instanceof Bad) return '["bad",' + quote(e.message.slice(0, 500)) + ']';
    if (e instanceof Shown) return '["fail",' + quote(e.what) + ',' + quote(e.message) + ']';
    return '["raise",' + quote(named(e).slice(0, 2000)) + ',[],[]]';
  }
}

function open(root, wanted, leftovers) {
  base = root ? tree + '/' + root : tree;
  chdir(base);
  base = realpathSync(base);
  sources = wanted.map((s) => (s === '' || s === '.' ? base : base + '/' + s));
  if (library) Module.globalPaths.push(library + '/node_modules', library);
  for (const name of leftovers) {
    try {
      const own = process.env.TMPDIR && name.startsWith('/tmp/') ? process.env.TMPDIR + name.slice(4) : name;
      closeSync(openSync(own, 'a', 0o600));
    } catch {} // what cannot be made is let be
  }
  return 'null';
}

async function load(modules) {
  for (const [name] of modules) await loaded(name, name);
  return 'null';
}

async function find(text) {
  entry = null;
  const at = text.lastIndexOf(':');
  const names = text.slice(at + 1).split('.');
  const space = await loaded(text.slice(0, Math.max(at, 0)), text);
  let [holder, value] = [undefined, space];
  for (const [n, name] of names.entries()) {
    holder = value;
    value = member(holder, name);
    if (value === undefined && n === 0) value = member(member(holder, 'default'), name);
  }
  if (typeof value !== 'function') throw new Shown(text, text + ' is no function');
  entry = (args) => apply(value, names.length > 1 ? holder : undefined, args);
  return 'null';
}

function member(holder, name) {
  const container = (typeof holder === 'object' && holder !== null) || typeof holder === 'function';
  return container && has(holder, name) ? holder[name] : undefined;
}

// loaded is the namespace of a module below one of the sources.
async function loaded(name, asked) {
  try {
    return await import(pathToFileURL(fileOf(name)).href);
  } catch (e) {
    throw new Shown(asked, shown(e));
  }
}

function fileOf(name) {
  if (!/^[^\0\\]+\.[cm]?js$/.test(name) || name.split('/').some((part) => ['', '.', '..'].includes(part))) {
    throw new Error(`${name} is no path of a .js, .mjs or .cjs file below the tree`);
  }
  for (const dir of sources) {
    const file = resolve(dir, name);
    if (!existsSync(file)) continue;
    const real = realpathSync(file);
    if (real.startsWith(base + sep)) return real;
  }
  throw new Error(`Cannot find ${name} in the tree`);
}

// shown is what the author of code that does not load would see at home.
function shown(e) {
  let text = named(e);
  try {
    if (types.isNativeError(e) && typeof e.stack === 'string') text = e.stack;
  } catch {} // an error that cannot be looked at
  text = text
    .split('\n')
    .filter((line) => !line.includes(__filename) && !line.includes('(node:internal/') && !line.includes('at node:internal/'))
    .join('\n')
    .replaceAll(pathToFileURL(base).href + '/', '')
    .replaceAll(base + '/', '');
  const bytes = bytesOf(text);
  if (bytes.length <= MAX_SHOWN - 300) return text;
  return bytes.utf8Slice(0, 1000) + '\n...\n' + bytes.utf8Slice(bytes.length - 2500);
}

// named is an error in one line.
function named(e) {
  try {
    return String(e).split('\n')[0];
  } catch {
    return 'an error that cannot be shown';
  }
}

async function row(form, text, repeat, seed, taken) {
  if (!entry) throw new Bad('a row without an entry');
  if (form !== 'listed' && form !== 'named') throw new Bad('no form ' + form);
  const given = new Reader(text).all();
  const args = form === 'listed' ? given : [given];
  seeded = seed === null ? null : generator(seed);
  try {
    let out = '["t"';
    for (let n = 0; n < repeat; n++) {
      const value = await entry(args);
      out += ',' + (await new Writer(taken).whole(value));
    }
    return out + ']';
  } finally {
    seeded = null;
  }
}

// generator gives numbers from 0 to below 1 that follow from a seed of 32 bits
// (mulberry32, two steps a number).
function generator(seed) {
  let state = seed >>> 0;
  const step = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z = (z + Math.imul(z ^ (z >>> 7), z | 61)) ^ z;
    return (z ^ (z >>> 14)) >>> 0;
  };
  return () => ((step() >>> 5) * 67108864 + (step() >>> 6)) / 9007199254740992;
}

// ---- arguments

// Reader reads JSON that is known to be valid: integers beyond 2^53 as BigInt, and
// "__proto__" as a key like any other.
class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  all() {
    const value = this.value();
    this.space();
    if (this.at !== this.text.length) throw new Bad('arguments that are no JSON');
    return value;
  }

  space() {
    while (' \t\n\r'.includes(this.text[this.at]) && this.at < this.text.length) this.at++;
  }

  // next steps over a character, with white space around it.
  next(wanted) {
    this.space();
    if (this.text[this.at] !== wanted) return false;
    this.at++;
    this.space();
    return true;
  }

  value() {
    this.space();
    switch (this.text[this.at]) {
      case '[':
        return this.list();
      case '{':
        return this.object();
      case '"':
        return this.string();
      default:
        return this.atom();
    }
  }

  list() {
    const out = [];
    this.next('[');
    if (this.next(']')) return out;
    do out[out.length] = this.value();
    while (this.next(','));
    if (!this.next(']')) throw new Bad('arguments that are no JSON');
    return out;
  }

  object() {
    const out = {};
    this.next('{');
    if (this.next('}')) return out;
    do {
      const key = this.string();
      if (!this.next(':')) throw new Bad('arguments that are no JSON');
      defineProperty(out, key, {__proto__: null, value: this.value(), writable: true, enumerable: true, configurable: true});
    } while (this.next(','));
    if (!this.next('}')) throw new Bad('arguments that are no JSON');
    return out;
  }

  string() {
    const start = this.at;
    if (this.text[this.at] !== '"') throw new Bad('arguments that are no JSON');
    for (this.at++; this.text[this.at] !== '"'; this.at++) {
      if (this.at >= this.text.length) throw new Bad('arguments that are no JSON');
      if (this.text[this.at] === '\\') this.at++;
    }
    this.at++;
    return this.parsed(start);
  }

  atom() {
    const start = this.at;
    while (this.at < this.text.length && !' \t\n\r,]}'.includes(this.text[this.at])) this.at++;
    const token = this.text.slice(start, this.at);
    if (!/^-?\d+$/.test(token)) return this.parsed(start);
    const value = this.parsed(start);
    if (!isSafeInteger(value)) return BigInt(token);
    return value === 0 ? 0 : value;
  }

  parsed(start) {
    try {
      return parseJSON(this.text.slice(start, this.at));
    } catch {
      throw new Bad('arguments that are no JSON');
    }
  }
}

// ---- values

// hides: an object of which nothing can be seen, though it is no {}: what it holds is elsewhere.
function hides(v, keys) {
  const of = getPrototypeOf(v);
  return keys.length > 0 || of !== null && of !== PLAIN;
}

const OPAQUE = '["o",0,0]';

// Writer spells a value, everything inline. It stops where a reply would be too long.
class Writer {
  constructor(taken) {
    this.taken = taken;
    this.length = 0;
    this.waiting = []; // async iterators: what stands for them, and how deep they are
  }

  async whole(value) {
    let text = this.value(value, 1);
    for (let n = 0; n < this.waiting.length; n++) {
      const {mark, iterator, depth} = this.waiting[n];
      let [out, ended] = ['', false];
      for (let i = 0; i < this.taken && !ended; i++) {
        const step = await iterator.next();
        ended = Boolean(step.done);
        if (!ended) out += ',' + this.value(step.value, depth + 1);
      }
      text = text.split(mark).join('["I",' + ended + out + ']');
    }
    return text;
  }

  count(text) {
    this.length += text.length;
    if (this.length > MAX_FRAME) throw new Bad('more than 8 MiB in one reply');
    return text;
  }

  value(v, depth) {
    if (depth > MAX_DEPTH) throw new Bad('a value nested deeper than ' + MAX_DEPTH);
    switch (typeof v) {
      case 'undefined':
        return this.count('null');
      case 'boolean':
        return this.count(v ? 'true' : 'false');
      case 'number':
        return this.count(number(v));
      case 'bigint':
        return this.count(integer(v));
      case 'string':
        return this.count(string(v));
      case 'object':
        return v === null ? this.count('null') : this.object(v, depth);
      default:
        return this.count(OPAQUE);
    }
  }

  object(v, depth) {
    if (types.isProxy(v)) return this.count(OPAQUE);
    if (isArray(v)) return this.items('L', v, v.length, depth);
    if (types.isUint8Array(v) || types.isDataView(v)) return this.count('["b","' + hexOf(v) + '"]');
    if (types.isAnyArrayBuffer(v)) return this.count('["b","' + hexOf(new Uint8Array(v)) + '"]');
    if (isView(v)) return this.items('L', v, v.length, depth);
    if (types.isDate(v)) return this.count(date(v));
    if (types.isMap(v)) return this.map(v, depth);
    if (types.isSet(v)) return this.set(v, depth);
    if (unspeakable(v)) return this.count(OPAQUE);
    if (typeof v.next === 'function' && typeof v[ITERATOR] === 'function') return this.taken ? this.iterator(v, depth) : this.count(OPAQUE);
    if (typeof v.next === 'function' && typeof v[ASYNC] === 'function') return this.taken ? this.later(v, depth) : this.count(OPAQUE);
    return this.record(v, depth);
  }

  items(tag, v, length, depth) {
    let out = '["' + tag + '"';
    for (let n = 0; n < length; n++) out += this.count(',') + this.value(v[n], depth + 1);
    return out + ']';
  }

  record(v, depth) {
    let out = '["M"';
    const keys = ownKeys(v);
    let empty = true;
    for (let n = 0; n < keys.length; n++) {
      const own = getOwnPropertyDescriptor(v, keys[n]);
      if (!own || !own.enumerable) continue;
      if (typeof keys[n] !== 'string') return this.count(OPAQUE); // a symbol: it would get lost
      out += ',' + this.count(string(keys[n])) + ',' + this.value(get(v, keys[n]), depth + 1);
      empty = false;
    }
    if (empty && hides(v, keys)) return this.count(OPAQUE);
    return out + ']';
  }

  // map and set: what is one thing to the judge and two to Node is anything else.
  map(v, depth) {
    const seen = {__proto__: null};
    let [out, twice] = ['["M"', false];
    mapEntries(v, (value, key) => {
      const text = this.value(key, depth + 1);
      twice = twice || seen[text];
      seen[text] = true;
      out += ',' + text + ',' + this.value(value, depth + 1);
    });
    return twice ? OPAQUE : out + ']';
  }

  set(v, depth) {
    const seen = {__proto__: null};
    let [out, twice] = ['["G"', false];
    setItems(v, (item) => {
      const text = this.value(item, depth + 1);
      twice = twice || seen[text];
      seen[text] = true;
      out += ',' + text;
    });
    return twice ? OPAQUE : out + ']';
  }

  iterator(v, depth) {
    let [out, ended] = ['', false];
    for (let n = 0; n < this.taken && !ended; n++) {
      const step = v.next();
      ended = Boolean(step.done);
      if (!ended) out += ',' + this.value(step.value, depth + 1);
    }
    return '["I",' + ended + out + ']';
  }

  // later stands for an async iterator until it was read. A mark has a character
  // that no spelling has.
  later(v, depth) {
    const mark = '\n' + this.waiting.length + '\n';
    this.waiting[this.waiting.length] = {mark, iterator: v, depth};
    return mark;
  }
}

// unspeakable has what counts in places that are no properties.
function unspeakable(v) {
  return (
    types.isNativeError(v) || types.isRegExp(v) || types.isPromise(v) || types.isBoxedPrimitive(v) || types.isWeakMap(v) ||
    types.isWeakSet(v) || types.isModuleNamespaceObject(v) || types.isExternal(v) || types.isArgumentsObject(v)
  );
}

function number(v) {
  if (isInteger(v) && isSafeInteger(v) && !is(v, -0)) return String(v);
  return '["f","' + hex(v) + '"]';
}

// hex writes a float as C's %a does.
function hex(v) {
  if (v !== v) return 'nan';
  if (v === Infinity) return 'inf';
  if (v === -Infinity) return '-inf';
  floats.setFloat64(0, v);
  const bits = floats.getBigUint64(0);
  const exponent = Number((bits >> 52n) & 0x7ffn);
  const fraction = (bits & 0xfffffffffffffn).toString(16).padStart(13, '0').replace(/0+$/, '');
  const sign = bits >> 63n ? '-' : '';
  if (exponent === 0 && fraction === '') return sign + '0x0p+0';
  const power = exponent === 0 ? -1022 : exponent - 1023;
  return sign + '0x' + (exponent === 0 ? '0' : '1') + (fraction && '.' + fraction) + 'p' + (power < 0 ? '' : '+') + power;
}

function integer(v) {
  if (v > -9007199254740992n && v < 9007199254740992n) return v.toString();
  const text = (v < 0n ? '-0x' : '0x') + (v < 0n ? -v : v).toString(16);
  if (text.length > MAX_HEX) throw new Bad('an integer that is too large');
  return '["i","' + text + '"]';
}

function date(v) {
  const time = dateTime(v);
  const utc = new Date(time);
  const year = utc.getUTCFullYear();
  if (time !== time || year < 1 || year > 9999) return OPAQUE;
  const parts = [year, utc.getUTCMonth() + 1, utc.getUTCDate(), utc.getUTCHours(), utc.getUTCMinutes(), utc.getUTCSeconds(), utc.getUTCMilliseconds() * 1000, 0];
  return '["dt",' + parts.join(',') + ',["tz",0,0,0]]';
}

const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

function string(v) {
  return LONE.test(v) ? '["u","' + surrogates(v) + '"]' : quote(v);
}

// quote writes JSON in printable ASCII; a surrogate that is alone becomes U+FFFD.
function quote(v) {
  const text = LONE.test(v) ? v.replace(new RegExp(LONE, 'g'), '\ufffd') : v;
  return quoteJSON(text).replace(/[\x7f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

// surrogates spells UTF-8 in which a surrogate is three bytes.
function surrogates(v) {
  let out = '';
  for (const c of v) {
    const code = c.codePointAt(0);
    if (code >= 0xd800 && code <= 0xdfff) {
      out += bytesOf([0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)]).toString('hex');
    } else {
      out += bytesOf(c).toString('hex');
    }
  }
  return out;
}

serve().catch((e) => {
  console.error(e);
  exit(1);
});
