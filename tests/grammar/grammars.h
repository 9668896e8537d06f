/* For measurements of grammars: some of them, and times of many calls. */
#ifndef TFT_TEST_GRAMMARS_H
#define TFT_TEST_GRAMMARS_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "grammar/grammar.h"

enum { TEXTS = 40, TOKENS = 40, MOST = TEXTS * TOKENS };

static const struct {
    const char *name;
    enum tft_grammar_kind kind;
    const char *text;
} grammars[] = {
    {"any JSON", TFT_GBNF,
     "root ::= obj\n"
     "obj ::= \"{\" ws (pair (\",\" ws pair)*)? \"}\" ws\n"
     "pair ::= str \":\" ws val\n"
     "val ::= obj | arr | str | num | (\"true\" | \"false\" | \"null\") ws\n"
     "arr ::= \"[\" ws (val (\",\" ws val)*)? \"]\" ws\n"
     "num ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)? ws\n"
     "str ::= \"\\\"\" chr* \"\\\"\" ws\n"
     "chr ::= [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt/] | \"u\" [0-9a-fA-F]{4})\n"
     "ws ::= [ \\t\\n]{0,8}\n"},
    {"a tool's call", TFT_GBNF,
     "root ::= \"{\\\"name\\\": \\\"\" (\"get_weather\\\", \\\"arguments\\\": \" weather | "
     "\"send_mail\\\", \\\"arguments\\\": \" mail) \"}\"\n"
     "weather ::= \"{\\\"city\\\": \" name (\", \\\"unit\\\": \" unit)? "
     "(\", \\\"days\\\": \" days)? (\", \\\"at\\\": \\\"\" date \"\\\"\")? \"}\"\n"
     "mail ::= \"{\\\"to\\\": [\" addr (\", \" addr){0,15} \"], \\\"subject\\\": \" title "
     "\", \\\"body\\\": \" str (\", \\\"urgent\\\": \" (\"true\" | \"false\"))? "
     "(\", \\\"headers\\\": {\" (head (\", \" head)*)? \"}\")? \"}\"\n"
     "head ::= str \": \" (str | num | \"null\")\n"
     "unit ::= \"\\\"celsius\\\"\" | \"\\\"fahrenheit\\\"\" | \"\\\"kelvin\\\"\"\n"
     "days ::= [1-9] | \"1\" [0-6]\n"
     "date ::= [0-9]{4} \"-\" [0-1] [0-9] \"-\" [0-3] [0-9] \"T\" [0-2] [0-9] \":\" [0-5] [0-9]\n"
     "addr ::= \"\\\"\" [a-z0-9._-]+ \"@\" ([a-z0-9-]+ \".\")+ [a-z]{2,8} \"\\\"\"\n"
     "name ::= \"\\\"\" chr{1,64} \"\\\"\"\n"
     "title ::= \"\\\"\" chr{0,200} \"\\\"\"\n"
     "num ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]+)?\n"
     "str ::= \"\\\"\" chr* \"\\\"\"\n"
     "chr ::= [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt/] | \"u\" [0-9a-fA-F]{4})\n"},
    {"lines of CSV", TFT_REGEX, "(?:[^,\\n]*,[^,\\n]{0,20},\\d+\\n)+"},
    {"words", TFT_REGEX, "[A-Z][a-z]+(?: [a-z]+){2,60}\\."},
    {"a short word", TFT_REGEX, "[a-z]{3,8}"},
    {"300 characters", TFT_REGEX, "\"(?:[^\"\\\\\\x00-\\x1f]|\\\\[\"nrt\\\\]){3,300}\""},
};

/* Microseconds of calls. */
struct times {
    unsigned us[MOST];
    size_t n;
};

static inline void add_time(struct times *t, clock_t start)
{
    t->us[t->n++] = (unsigned)((double)(clock() - start) * 1e6 / CLOCKS_PER_SEC);
}

static inline int by_size(const void *a, const void *b)
{
    const unsigned *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static inline void print_times(const char *what, struct times *t)
{
    qsort(t->us, t->n, sizeof *t->us, by_size);
    printf("  %s %u/%u", what, t->us[t->n / 2], t->us[t->n - 1]);
    t->n = 0;
}

/* A token of the mask. */
static inline int32_t draw(const uint32_t *mask, uint32_t n, uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    for (uint32_t i = 0, id = (*seed >> 8) % n; i < n; i++, id = id + 1 < n ? id + 1 : 0)
        if (mask[id / 32] >> id % 32 & 1)
            return (int32_t)id;
    exit(1);
}

static inline void follow(struct tft_grammar_state *s, int32_t id)
{
    if (tft_grammar_accept(s, id))
        exit(1);
}

#endif
