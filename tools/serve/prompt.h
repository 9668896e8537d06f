/* Turns messages, tools and texts of a request into the tokens of a prompt. */
#ifndef SERVE_PROMPT_H
#define SERVE_PROMPT_H

#include "params.h"

struct prompt {
    const struct template_format *template; /* of a conversation */
    int32_t *ids; /* [n_held + n]; the model's prefix holds the first n_held */
    size_t n, n_held;
    bool text_goes_on, in_thought;
    bool thinks;  /* the model may think before it answers */
    bool goes_on; /* the prompt ends in an answer that the model continues */
};

#define NO_TEMPLATE "the model has no chat template" /* an error of a request */

/* The text of the conversation in f, as prompt_chat makes it; the caller frees it. Sets
   p->thinks and p->goes_on, and p->in_thought if the prompt goes on. */
void prompt_render(struct tft_chat_text *t, struct prompt *p, struct exchange *x, struct fields *f,
                   const struct tft_chat_tools *tools);

/* The prompt of the conversation in f: `messages`, `tools`, `chat_template_kwargs`,
   `add_generation_prompt` and `continue_final_message`. Changes the messages of f->body to the form
   of templates. tools: the tools of `tools`, or NULL. A message of the system or a user that the
   template drops is an error; a dropped result of a tool adds a header to the reply. */
void prompt_chat(struct prompt *p, struct exchange *x, struct fields *f,
                 const struct tft_chat_tools *tools);

/* The prompt of a text. special: names of special tokens in the text become these tokens. */
void prompt_text(struct prompt *p, const struct served *s, struct fields *f, const char *text,
                 size_t n, bool special);

/* The prompt of tokens, a list of numbers. */
void prompt_tokens(struct prompt *p, const struct served *s, struct fields *f, const json_t *list);

/* Counts the tokens that the model's prefix holds, of the n of a new prompt. */
void prompt_hold(struct prompt *p, const struct served *s);

/* Gives job number i of a request its copy; false: out of memory. */
bool prompt_put(const struct prompt *p, struct job *j);

#endif
