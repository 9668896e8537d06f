/* Conversations of a file, for --calib: a line of JSON for each, an object with OpenAI's
   "messages", and "tools" where there are some. Other members are variables of the template, as in
   tft_chat_input. */
#ifndef QUANTIZE_TEXT_CHAT_FILE_H
#define QUANTIZE_TEXT_CHAT_FILE_H

#include <string.h>

#include "chat/tuffet_chat.h"
#include "tools/quantize/text/talks.h"

/* Bytes of a byte order mark that the text begins with, as files from Windows do: 3 or 0. */
static inline size_t chat_file_mark(const char *text)
{
    return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Adds them as the template renders them. CLI_OK, or the exit status after a message that names the
   file and the line: of one that is not JSON, has a role that nobody knows, or that the template
   refuses. */
int chat_file_read(struct talks *out, const struct tft_model *m,
                   const struct tft_chat_template *t, const char *path, const char *text, size_t n);

#endif
