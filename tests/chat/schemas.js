/* Random schemas of the keywords that docs/chat.md lists, for campaign.js: of all of them together,
   of a schema for schemas, and around a value. */
'use strict';

/* Mulberry32. */
class Random {
    constructor(seed) { this.state = seed >>> 0; }
    unit() {
        this.state = this.state + 0x6d2b79f5 >>> 0;
        let t = Math.imul(this.state ^ this.state >>> 15, this.state | 1);
        t ^= t + Math.imul(t ^ t >>> 7, t | 61);
        return ((t ^ t >>> 14) >>> 0) / 2 ** 32;
    }
    below(n) { return Math.floor(this.unit() * n); }
    may(p) { return this.unit() < p; }
    of(list) { return list[this.below(list.length)]; }
    some(list, p) { return list.filter(() => this.may(p)); }
    times(n, f) { return Array.from({length: n}, f); }
}

const NAMES = ['a', 'b', 'ab', 'abc', '', 'x"y', 'é', 'n\n', 'a/b', '~', ' ', '\\', '😀', 'Ģ',
    '\u0001', '%', '\u007f', 'null'];
const FORMATS = ['date', 'time', 'date-time', 'uuid', 'ipv4', 'email'];
const WORDS = ['', 'a', 'ab', 'b"', '\\', 'é\n', '😀😀', '\u2028', '2024-02-29', '1'];
const TYPES = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'];

/* At most 15 digits: ajv compares doubles. */
function number(r) {
    return r.of([
        () => r.below(41) - 20, () => r.below(4001) - 2000, () => (r.below(401) - 200) / 8,
        () => (r.below(2001) - 1000) / 1000,
        () => r.of([0, -0.5, 1e-7, 1e10, -1e10, 123456789012345, -999999999999999, 0.1, 0.3, 99.99,
            -0.001, 1.5e-10, 1e15]),
    ])();
}

function value(r, depth) {
    return r.of([
        () => null, () => r.may(0.5), () => number(r), () => number(r), () => r.of(WORDS),
        () => r.of(WORDS),
        () => depth > 0 ? r.times(r.below(4), () => value(r, depth - 1)) : [],
        () => Object.fromEntries(depth > 0
            ? r.times(r.below(4), () => [r.of(NAMES), value(r, depth - 1)]) : []),
    ])();
}

/* ---- patterns */

function atom(r, depth) {
    return r.of([
        () => r.of([...'abcxyz019 -_"é€', '😀', '\\\\', '\\.', '\\/', '\\t', '\\n',
            '\\u00e9', '\\x41', '\\$']),
        () => r.of(['.', '\\d', '\\w', '\\s', '\\D', '\\W', '\\S']),
        () => `[${r.of(['', '^'])}${r.times(1 + r.below(3), () =>
            r.of(['a-f', '0-9', 'x', '"', '\\\\', '\\d', '\\s', '\\n', 'é-ü', '\\-', ' -~', '.',
                '\\u0000-\\u001f'])).join('')}]`,
        () => depth > 0 ? `${r.of(['(', '(?:'])}${sum(r, depth - 1)})` : 'a',
    ])();
}

function sum(r, depth) {
    return r.times(1 + r.below(3), () => r.times(1 + r.below(3), () => {
        const least = r.below(4), many = `{${least}${r.of(['', ',', `,${least + r.below(3)}`])}}`;
        return atom(r, depth) + r.of(['', '', '', '?', '*', '+', many, '*?', '+?']);
    }).join('')).join('|');
}

function pattern(r) {
    return r.of([() => `^(?:${sum(r, 2)})$`, () => `^${sum(r, 1)}$`, () => sum(r, 1),
        () => `^${atom(r, 0)}*$`, () => `^${atom(r, 0)}{${r.below(3)},}$`])();
}

/* ---- all keywords */

class Schemas {
    constructor(seed) { this.r = new Random(seed); }

    bounds(s, names, least, most) {
        if (this.r.may(0.6))
            s[names[0]] = least;
        if (this.r.may(0.6))
            s[names[1]] = most;
    }

    forNumbers(s) {
        const r = this.r, low = number(r);
        const high = r.may(0.1) ? number(r)
            : Number((low + r.of([0, 0.5, 1, 7, 300, 1e6])).toPrecision(15));
        this.bounds(s, [r.of(['minimum', 'exclusiveMinimum']),
            r.of(['maximum', 'exclusiveMaximum'])], low, high);
        if (r.may(0.1))
            s.exclusiveMinimum = number(r);
        if (r.may(0.1))
            s.multipleOf = r.of([1, 2, 3, 5, 10, 0.5, 0.1, 0.01]);
    }

    forStrings(s) {
        const r = this.r, least = r.below(4);
        if (r.may(0.4))
            s.pattern = pattern(r);
        else if (r.may(0.3))
            s.format = r.of(FORMATS);
        if (r.may(s.pattern || s.format ? 0.1 : 0.8))
            this.bounds(s, ['minLength', 'maxLength'], least, least + r.below(6));
    }

    forArrays(s, depth) {
        const r = this.r, least = r.below(3);
        if (r.may(0.3))
            s.prefixItems = r.times(1 + r.below(3), () => this.schema(depth - 1));
        if (r.may(0.6))
            s.items = r.may(0.1) ? r.may(0.5) : this.schema(depth - 1);
        this.bounds(s, ['minItems', 'maxItems'], least, least + r.below(3));
        if (r.may(0.1))
            s.uniqueItems = r.may(0.8);
        if (s.uniqueItems)
            s.items = {enum: r.times(1 + r.below(10), () => value(r, 1))};
    }

    forObjects(s, depth) {
        const r = this.r, least = r.below(3), names = r.some(NAMES, 0.15);
        if (r.may(0.05)) /* not in constants: ajv compares those by their `constructor` as well */
            names.push('constructor');
        if (r.may(0.8))
            s.properties = Object.fromEntries(names.map(n => [n, r.may(0.05) ? r.may(0.5)
                : this.schema(depth - 1)]));
        if (r.may(0.6))
            s.required = [...r.some(names, 0.5), ...r.some(NAMES, 0.03)].filter((n, i, l) =>
                l.indexOf(n) === i);
        if (r.may(0.4))
            s.additionalProperties = r.may(0.4) ? r.may(0.5) : this.schema(depth - 1);
        if (r.may(0.1)) {
            delete s.properties;
            delete s.required;
            const names = r.of([{enum: r.some(NAMES, 0.3)}, {pattern: pattern(r)}, {maxLength: 3}]);
            if (r.may(0.5))
                s.propertyNames = names;
            else
                s.patternProperties = {[pattern(r)]: this.schema(depth - 1)};
        }
        if (r.may(0.3))
            this.bounds(s, ['minProperties', 'maxProperties'], least, least + r.below(3));
    }

    schema(depth) {
        const r = this.r, s = {};
        if (depth > 0 && r.may(0.15)) {
            s.$ref = r.of(['#/$defs/p', '#/$defs/q', '#/$defs/a~1b%20', '#']);
            if (r.may(0.8))
                return s;
        }
        const types = r.may(0.25) ? r.some(TYPES, 0.4)
            : [r.of(depth > 0 ? TYPES : TYPES.slice(0, 5))];
        if (types.length && r.may(0.95))
            s.type = types.length > 1 || r.may(0.1) ? types : types[0];
        const has = t => types.includes(t) || r.may(0.05);
        if (has('integer') || has('number'))
            this.forNumbers(s);
        if (has('string'))
            this.forStrings(s);
        if (has('array'))
            this.forArrays(s, depth);
        if (has('object'))
            this.forObjects(s, depth);
        if (r.may(0.08))
            s.enum = r.times(1 + r.below(5), () => value(r, 2));
        if (r.may(0.03))
            s.const = value(r, 2);
        if (r.may(0.06))
            s.not = r.of([{type: r.of(TYPES)}, {const: value(r, 1)}, {enum: [value(r, 1), 'a']}]);
        if (s.type && r.may(0.05))
            s.nullable = r.may(0.7);
        for (const key of ['allOf', 'anyOf', 'oneOf'])
            if (depth > 0 && r.may(0.08))
                s[key] = r.times(1 + r.below(3), () => this.schema(depth - 1));
        if (r.may(0.05))
            Object.assign(s, {title: 't', description: 'd', default: 1, deprecated: true});
        return s;
    }

    root() {
        const s = this.schema(3);
        if (JSON.stringify(s).includes('#/$defs'))
            s.$defs = {p: this.schema(2), q: this.schema(1), 'a/b ': this.schema(1)};
        return s;
    }
}

/* ---- a schema around a value, which is valid by it */

function around(r, v, depth) {
    const type = v === null ? 'null' : Array.isArray(v) ? 'array'
        : typeof v === 'number' ? Number.isInteger(v) ? 'integer' : 'number' : typeof v;
    const s = {type: r.may(0.9) ? type
        : [type, r.of(TYPES)].filter((t, i, l) => l.indexOf(t) === i)};
    if (r.may(0.1))
        return {const: v};
    if (r.may(0.1))
        return {enum: [value(r, 1), v, value(r, 1)]};
    if (type === 'integer' || type === 'number') {
        if (r.may(0.5))
            s.minimum = r.may(0.5) ? v : Math.floor(v) - r.below(50);
        if (r.may(0.5))
            s.exclusiveMaximum = Math.ceil(v) + 1 + r.below(50);
    } else if (type === 'string') {
        if (r.may(0.4))
            s.pattern = `^${v.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')}${
                r.of(['', '[a-z]{0,3}', '(?: x|y)*'])}$`;
        else
            Object.assign(s, {minLength: r.below([...v].length + 1),
                maxLength: [...v].length + r.below(3)});
    } else if (type === 'array') {
        const each = v.map(x => around(r, x, depth - 1));
        if (r.may(0.5))
            Object.assign(s, {prefixItems: each, items: r.may(0.5),
                minItems: r.below(v.length + 1)});
        else if (each.length)
            Object.assign(s, {items: {anyOf: each}, maxItems: v.length + r.below(3)});
        if (!s.prefixItems?.length)
            delete s.prefixItems;
    } else if (type === 'object') {
        s.properties = Object.fromEntries(
            Object.entries(v).map(([k, x]) => [k, around(r, x, depth - 1)]));
        s.required = r.some(Object.keys(v), 0.6);
        if (r.may(0.5))
            s.additionalProperties = r.may(0.5);
    }
    return r.may(0.1) ? r.of([{allOf: [s]}, {anyOf: [s, {type: 'null'}]}]) : s;
}

/* ---- a schema for schemas, for json-schema-faker */

const count = {type: 'integer', minimum: 0, maximum: 4};
const bound = {enum: [-20, -2.5, -1, 0, 0.25, 1, 3, 7.125, 100]};
const scalar = {enum: [null, true, 0, 1, -2.5, 1e3, 'a', 'é"', 2]};
const list = (items, least, most) => ({type: 'array', items, minItems: least, maxItems: most});
const object = (names, value) => ({type: 'object', additionalProperties: false,
    properties: Object.fromEntries(names.map(n => [n, value]))});

/* A schema for schemas that have `depth` levels of schemas below them. */
function meta(depth) {
    const flat = {
        type: {anyOf: [{enum: TYPES}, {enum: TYPES},
            {...list({enum: TYPES}, 1, 3), uniqueItems: true}]},
        enum: list(scalar, 1, 4), const: scalar, format: {enum: FORMATS},
        minimum: bound, maximum: bound, exclusiveMinimum: bound, exclusiveMaximum: bound,
        minLength: count, maxLength: count, minItems: count, maxItems: count,
        minProperties: count, maxProperties: count,
        pattern: {enum: ['^[a-c]*$', 'x+y?', '^\\d{2}$', '[^a]|b', '^.$']},
        required: {...list({enum: ['a', 'b', 'c']}, 0, 3), uniqueItems: true},
    };
    if (depth === 0)
        return {...object([]), properties: flat};
    const below = meta(depth - 1), few = list(below, 1, 2);
    return {...object([]), properties: {...flat, properties: object(['a', 'b', 'é"'], below),
        additionalProperties: {anyOf: [{type: 'boolean'}, below]}, items: below, prefixItems: few,
        anyOf: few, allOf: few, oneOf: few}};
}
const META = meta(2);

module.exports = {Random, Schemas, META, around, value};
