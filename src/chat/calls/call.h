/*
 * Tools: the functions that a model may call, and the formats of calls. format.c has the table of
 * formats, tools.c reads declarations, grammar.c writes a grammar of answers, and answer.c reads an
 * answer. arguments.c turns the arguments of a call into JSON; members.c does so for formats with
 * other arguments than a JSON object.
 *
 * Grammar and reader share the patterns. A pattern is text in which %n is the name of a tool, %a
 * its arguments, %i an id that the model invents, and ~ an optional space. A model may write
 * without the grammar: the reader takes any white space, or none, where a pattern has white space,
 * and skips white space elsewhere.
 */
#ifndef TFT_CALL_H
#define TFT_CALL_H

#include "chat/schema/schema.h"
#include "chat/tuffet_chat.h"

enum {
    CALL_TOOLS = 128, /* limits, named by messages */
    CALL_NAME = 64,
    CALL_MARKS = 4,
    CALL_SIGNS = 2,
};

/* An answer is text, then sections. A section is `open`, calls separated by `comma`, `close`. */
struct call_format {
    const char *name;
    const char *sign[CALL_SIGNS]; /* a template that contains one of the signs has this format */
    const char *mark[CALL_MARKS]; /* texts that may be special tokens; mark[0] begins a section */
    bool at_start;                /* an answer that begins with a brace, or mark[0] and a brace, is
                                     calls; any other is text */
    const char *open, *call, *comma, *close; /* patterns. comma: NULL: one call in a section */
    const char *between; /* text between two sections; NULL: at most one section */
    struct schema_members members; /* how arguments are written; all NULL: as a JSON object */
    char end;                      /* the character of `call` after the arguments */
    const struct schema_spelling *spelling; /* of values; NULL: JSON */
};

/* NULL: no format has the name. */
const struct call_format *tft_call_format(const char *name);

struct jinja_token;
/* The name of the call format in a template's tokens, up to TOKEN_END; "json" if the tokens show no
   format. */
const char *tft_call_shown(const struct jinja_token *t);

struct call_tool {
    char name[CALL_NAME + 1];
    uint32_t rule; /* the number of the rule of its arguments */
    struct jinja_list *member; /* the arguments' names, if the format has `until` */
    bool *raw;                 /* [member->n] whether its value has no quotes and escapes */
};

struct tft_chat_tools {
    struct jinja pool;
    const struct call_format *format;
    struct call_tool *tool; /* [n] */
    size_t n;
    struct jinja_buffer rules; /* GBNF of the rules of arguments */
    struct jinja_buffer ask;   /* for the system message */
};

/* The index of the tool name[n]; SIZE_MAX: absent. */
size_t tft_call_find(const struct tft_chat_tools *tools, const char *name, size_t n);

/* ---- grammar.c */

/* Writes a rule, and others with names derived from `rule`, for texts without the mark. The mark
   must not repeat its first character. */
void tft_call_write_without(struct schema *c, const char *rule, const char *mark);

/* ---- arguments.c */

enum { CALL_DEPTH = 256 }; /* of nested lists and objects */

/* Reads the arguments of a call, a character at a time, and writes JSON. Initialize all fields to
   zero. */
struct call_value {
    enum call_place {
        CALL_BEGIN,       /* the object of arguments is expected */
        CALL_VALUE,       /* a value */
        CALL_FIRST_ITEM,  /* a value, or the end of a list */
        CALL_NAME_OR_END, /* a name, or the end of an object */
        CALL_MEMBER,      /* a name */
        CALL_COLON,
        CALL_NEXT,        /* a comma, or the end of a list or object */
        CALL_STRING,
        CALL_ESCAPE,      /* the character after a backslash */
        CALL_HEX,         /* `left` hexadecimal digits */
        CALL_NUMBER,
        CALL_WORD,        /* the rest of `word` */
        CALL_MARK,        /* the rest of `word`, then a string */
        CALL_BARE,        /* a name without quotes */
        CALL_RAW,         /* a string without quotes and escapes, up to `until` */
    } place;
    enum call_digits {
        CALL_MINUS, CALL_ZERO, CALL_WHOLE, CALL_POINT, CALL_FRACTION, CALL_E, CALL_SIGN,
        CALL_EXPONENT,
    } digits;
    bool is_name; /* the string is the name of a member */
    char quote;   /* the closing quote */
    unsigned left;
    const char *word, *means;
    bool python;       /* accepts Python's literals too: True, False, None, '...' */
    const char *mark;  /* around strings; names have no quotes. NULL: JSON */
    const char *until; /* `matched` of its characters have come */
    unsigned matched;
    bool drops_line;
    bool line; /* a pending line end: part of the string only if more of the string follows */
    unsigned depth;
    bool is_list[CALL_DEPTH];
    char out[48]; /* [n_out] output for the newest character */
    size_t n_out;
};

enum call_took {
    CALL_MORE,
    CALL_LAST,   /* the character ends the value */
    CALL_BEFORE, /* the value ended before the character: take it again elsewhere */
    CALL_BAD,  /* the character is invalid here */
};
/* Takes the character p[n], complete UTF-8. */
enum call_took tft_call_take(struct call_value *v, const char *p, size_t n);
/* Begins a string without quotes and escapes. line: a line end before `until` is not part of the
   string. */
void tft_call_begin_raw(struct call_value *v, const char *until, bool line);

/* ---- members.c */

/* Reads arguments in the form `members` of the format. Set f and tool, and all other fields to
   zero. */
struct call_members {
    const struct call_format *f;
    const struct call_tool *tool;
    enum {
        MEMBER_START, /* a member, or the end */
        MEMBER_NAME,
        MEMBER_VALUE,
        MEMBER_AFTER, /* the text after a value, from `at` on */
        MEMBER_COMMA,
    } place;
    size_t at, n_members;
    char name[CALL_NAME]; /* [n_name] */
    size_t n_name;
    bool raw, first; /* of the value; first: the value has not begun */
    struct call_value value;
    char out[48]; /* [n_out] output for the newest character */
    size_t n_out;
};
/* As tft_call_take. The arguments end before f->end. */
enum call_took tft_call_take_member(struct call_members *m, const char *p, size_t n);

#endif
