'use strict';
// The kit's functions in Node; functions.md says what each must do. By keyword is
// with one object.
const {existsSync, readFileSync, statSync} = require('node:fs');
const {spawn, spawnSync} = require('node:child_process');

const calls = {count_calls: 0, raise_on_second_call: 0};

exports.a_constant = 7;
exports.echo = (x) => x;
exports.add = (a, b) => a + b;
exports.subtract = (a, b) => a - b;
exports.by_keyword = ({minuend, subtrahend}) => minuend - subtrahend;
exports.append_to_list = (items) => {
  items.push(1);
  return items;
};
exports.append_by_keyword = ({items}) => exports.append_to_list(items);
exports.none = () => {};
exports.raise_error = (message) => {
  throw new RangeError(message);
};
exports.raise_on_second_call = () => {
  calls.raise_on_second_call++;
  if (calls.raise_on_second_call === 2) throw new Error('the second call');
  return calls.raise_on_second_call;
};
exports.stop = () => {
  throw {done: true, value: 1};
};
exports.count_calls = () => ++calls.count_calls;
exports.floats = () => [0.1, -0, 1e308, 5e-324];
exports.not_finite = () => [Infinity, -Infinity, NaN];
exports.nested = () => ({a: [1, {b: null}], c: true});
exports.unicode = () => 'gr\u00fc\u00dfe \u{1f600} \0\x7f\u2028 "\\/';
exports.deep = (n) => {
  let out = [];
  for (let i = 1; i < n; i++) out = [out];
  return out;
};
exports.cycle = () => {
  const out = [];
  out.push(out);
  return out;
};
exports.shared = () => {
  const one = [1];
  return [one, one];
};
exports.long_text = (n) => 'x'.repeat(n);
exports.a_function = () => exports.echo;
exports.print_noise = (text) => {
  console.log(text);
  console.error(text);
  return 'quiet';
};
exports.print_much = (n) => {
  process.stdout.write('y'.repeat(n));
  return 'quiet';
};
exports.read_input = () => readFileSync(0, 'utf8');
exports.child_writes = () => {
  spawnSync('/bin/sh', ['-c', 'printf x >&4; printf x >&3'], {stdio: 'ignore'});
  return 'done';
};
exports.child_stays = () => {
  spawn('/bin/sh', ['-c', 'sleep 2'], {stdio: 'ignore'});
  return 'done';
};
exports.file_exists = (path) => existsSync(path) && statSync(path).isFile();
exports.leave = () => process.exit(3);
exports.slow = async (seconds) => {
  await new Promise((done) => setTimeout(done, seconds * 1000));
  return 'slept';
};
exports.big_int = () => 2n ** 70n;
exports.some_bytes = () => Buffer.from([0, 255]);
exports.a_set = () => new Set([1, 'a']);
exports.lone_surrogate = () => '\ud800';
exports.an_object = () => Symbol('anything else');
exports.iterator = function* (n) {
  for (let i = 0; n < 0 || i < n; i++) yield i;
};
exports.nested_iterator = (n) => ({items: [exports.iterator(n)]});
exports.Box = class {
  static label(text) {
    return 'box ' + text;
  }
};
exports.later = async (x) => {
  await null;
  return x;
};
exports.random_number = () => Math.random();
