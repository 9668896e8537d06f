/* An answer that may call a tool, read while it is generated. */
#ifndef READER_H
#define READER_H

#include "chat/tuffet_chat.h"
#include "tools/cli/cli.h"

struct reader {
    const struct tft_model *m;
    /* Takes text outside of calls. Returns false, with errno, if it could not be written. */
    bool (*show)(void *user, const char *p, size_t n);
    void *user;
    bool only; /* the answer must be a call: text is a mark that was cut, and is not shown */

    struct tft_chat_answer *a;
    struct cli_text name, arguments; /* of the call */
    bool called;                     /* the call is complete */
    bool cut;                        /* the answer ended within a call */
    int err;                         /* errno of text that could not be written or kept */
};

/* Opens a reader. The caller sets the first four fields, and the others to zero. Returns CLI_OK,
   or CLI_FAILED after an error message. The caller closes the reader in either case. */
int reader_open(struct reader *r, const struct tft_chat_tools *tools);
void reader_close(struct reader *r);

/* Takes the text p[n] of a token. id: the token; -1: the text is no part of a call. Returns false,
   with errno, if text could not be written. */
bool reader_take(struct reader *r, int32_t id, const char *p, size_t n);

/* The answer is complete, with the text p[n] at its end; as reader_take. */
bool reader_end(struct reader *r, const char *p, size_t n);

#endif
