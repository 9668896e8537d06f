/*
 * Tools: the functions that a model may call, and how it writes calls. format.c has the table of
 * formats, tools.c reads declarations, grammar.c writes a grammar of answers, and answer.c reads an
 * answer. arguments.c turns the arguments of a call into JSON, with members.c where a format writes
 * them otherwise.
 *
 * Grammar and reader go by the same patterns. A pattern is text, in which %n stands for the name of
 * a tool, %a for its arguments, %i for an id that the model makes up, and ~ for a space that the
 * grammar lets the model leave out. The reader takes any white space, or none, where a pattern has
 * white space, and skips white space elsewhere, since a model may write without the grammar.
 */
#ifndef TFT_CALL_H
#define TFT_CALL_H

#include "chat/schema/schema.h"
#include "chat/tuffet_chat.h"

enum {
    CALL_TOOLS = 128, /* limits that messages name */
    CALL_NAME = 64,
    CALL_MARKS = 4,
    CALL_SIGNS = 2,
};

/* An answer is text, and then sections: open, calls with `comma` between them, close. */
struct call_format {
    const char *name;
    const char *sign[CALL_SIGNS]; /* a template that contains one of them has this format */
    const char *mark[CALL_MARKS]; /* texts that may be special tokens; mark[0] begins a section */
    bool at_start;                /* an answer is text or calls, not both: it is calls if it begins
                                     with a brace, or with mark[0] before it */
    const char *open, *call, *comma, *close; /* patterns. comma: NULL: one call in a section */
    const char *between; /* text between two sections; NULL: there is only one section */
    struct schema_members members; /* how arguments are written; all NULL: as a JSON object */
    char end;                      /* the character of `call` behind them */
    const struct schema_spelling *spelling; /* of values; NULL: JSON */
};

/* NULL: there is no format of that name. */
const struct call_format *tft_call_format(const char *name);

struct jinja_token;
/* The name of the format that a template's tokens, up to TOKEN_END, show; "json" if they show
   none. */
const char *tft_call_shown(const struct jinja_token *t);

struct call_tool {
    char name[CALL_NAME + 1];
    uint32_t rule; /* the number of the rule of its arguments */
    struct jinja_list *member; /* their names, where the format has `until`: */
    bool *raw;                 /* [member->n] whether it stands without quotes and escapes */
};

struct tft_chat_tools {
    struct jinja pool;
    const struct call_format *format;
    struct call_tool *tool; /* [n] */
    size_t n;
    struct jinja_buffer rules; /* GBNF of the rules of arguments */
    struct jinja_buffer ask;   /* for the system message */
};

/* The number of the tool name[n]; SIZE_MAX: there is none. */
size_t tft_call_find(const struct tft_chat_tools *tools, const char *name, size_t n);

/* ---- grammar.c */

/* Writes a rule, and others named after it, for texts that do not contain the mark. The first
   character of the mark does not come again within it. */
void tft_call_write_without(struct schema *c, const char *rule, const char *mark);

/* ---- arguments.c */

enum { CALL_DEPTH = 256 }; /* lists and objects inside each other */

/* Reads the arguments of a call, a character at a time, and writes them as JSON. Start with all
   fields zero. */
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
        CALL_ESCAPE,      /* the character behind a backslash */
        CALL_HEX,         /* `left` hexadecimal digits */
        CALL_NUMBER,
        CALL_WORD,        /* the rest of `word` */
        CALL_MARK,        /* the rest of `word`, behind which a string begins */
        CALL_BARE,        /* a name without quotes */
        CALL_RAW,         /* a string without quotes and escapes, up to `until` */
    } place;
    enum call_digits {
        CALL_MINUS, CALL_ZERO, CALL_WHOLE, CALL_POINT, CALL_FRACTION, CALL_E, CALL_SIGN,
        CALL_EXPONENT,
    } digits;
    bool is_name; /* the string is the name of a member */
    char quote;   /* that the string ends with */
    unsigned left;
    const char *word, *means;
    bool python;       /* takes literals of Python too: True, False, None, and '...' */
    const char *mark;  /* before and behind strings; names have no quotes. NULL: JSON */
    const char *until; /* of which `matched` characters have come */
    unsigned matched;
    bool drops_line;
    bool line; /* a line end that belongs to the string if it goes on, and not if it ends */
    unsigned depth;
    bool is_list[CALL_DEPTH];
    char out[48]; /* [n_out] what the newest character gives */
    size_t n_out;
};

enum call_took {
    CALL_MORE,
    CALL_LAST,   /* the character ends the value */
    CALL_BEFORE, /* the value ended before the character, which is still to be taken */
    CALL_BAD,  /* no arguments have this character here */
};
/* Takes the character p[n], whole UTF-8. */
enum call_took tft_call_take(struct call_value *v, const char *p, size_t n);
/* Begins a string without quotes and escapes. line: a line end before `until` is not part of it. */
void tft_call_begin_raw(struct call_value *v, const char *until, bool line);

/* ---- members.c */

/* Reads arguments that are written as `members` of the format. Start with f and tool, and all other
   fields zero. */
struct call_members {
    const struct call_format *f;
    const struct call_tool *tool;
    enum {
        MEMBER_START, /* a member, or the end */
        MEMBER_NAME,
        MEMBER_VALUE,
        MEMBER_AFTER, /* the text behind a value, from `at` on */
        MEMBER_COMMA,
    } place;
    size_t at, n_members;
    char name[CALL_NAME]; /* [n_name] */
    size_t n_name;
    bool raw, first; /* of the value; first: it has not begun */
    struct call_value value;
    char out[48]; /* [n_out] what the newest character gives */
    size_t n_out;
};
/* As tft_call_take. The arguments end before f->end. */
enum call_took tft_call_take_member(struct call_members *m, const char *p, size_t n);

#endif
