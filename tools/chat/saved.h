/*
 * A conversation in a file: its messages, and then the session that has their tokens, as
 * tft_session_save_mem writes it. One file, so that both are replaced at once and always agree.
 * docs/file-format.md has the format.
 */
#ifndef SAVED_H
#define SAVED_H

#include "conversation.h"

/* Writes the conversation to a file, which gets its name when it is complete. An existing file must
   be a saved conversation, or empty. A session on a device is left out. Returns CLI_OK, or
   CLI_FAILED after an error message. */
int saved_write(const struct conversation *c, const char *path);

/* Replaces the messages by the messages of a file, and the session's tokens by the saved ones: the
   next answer is the same as without the save. The sampler continues with the saved random numbers.
   If the session in the file does not fit, prints a note, and the next message computes the tokens.
   The file is not trusted: after an error, all messages are unchanged. */
int saved_read(struct conversation *c, const char *path);

#endif
