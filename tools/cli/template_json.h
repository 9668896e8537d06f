/* The messages of a conversation, and conversations with tools as JSON for templates. */
#ifndef TEMPLATE_JSON_H
#define TEMPLATE_JSON_H

#include "cli.h"

enum template_role { TEMPLATE_SYSTEM, TEMPLATE_USER, TEMPLATE_ASSISTANT, TEMPLATE_TOOL };

/* An answer may call a tool; the next message is then its result, of the role TEMPLATE_TOOL. */
struct template_message {
    enum template_role role;
    struct cli_text text;
    struct cli_text name;      /* of the tool; empty: no call */
    struct cli_text arguments; /* of the call: a JSON object */
};

/* Tools that the model may call. */
struct template_tools {
    const char *json; /* OpenAI's list of declarations, the variable `tools` */
    const char *ask;  /* [n_ask] the system message's description of the tools, if the template does
                         not write one; empty if it does */
    size_t n_ask;
};

struct template_options {
    bool no_think;                      /* the variable enable_thinking is false */
    const struct template_tools *tools; /* NULL: none */
};

/* The variables `messages`, `tools` and, with no_think, `enable_thinking`: an object, text[*len],
   which the caller frees; NULL: out of memory. Bytes of messages that are not UTF-8 become
   U+FFFD. */
char *template_json(const struct template_message *message, size_t n,
                    const struct template_options *o, size_t *len);

#endif
