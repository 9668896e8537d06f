/*
 * A conversation in a file: its messages, and behind them the session that has their tokens, as
 * tft_session_save_mem writes it. One file, so that both are replaced at once and never disagree.
 * docs/sessions.md has the format.
 */
#ifndef SAVED_H
#define SAVED_H

#include "conversation.h"

/* Writes the conversation to a file, which gets its name when it is complete. A file that is there
   already must be a saved conversation, or empty. A session on a device is left out. Returns
   CLI_OK, or CLI_FAILED after an error message. */
int saved_write(const struct conversation *c, const char *path);

/* Replaces the messages by those of a file, and the tokens of the session by the saved ones: the
   next answer is the one that would have come. The sampler goes on with the saved random numbers.
   Where the session in the file does not fit, which a note says, the tokens are computed with the
   next message. The file is not trusted: after an error, all messages are as they were. */
int saved_read(struct conversation *c, const char *path);

#endif
