/* Conversations of a file, for --calib: each is a line of JSON, an object with OpenAI's "messages",
   and optionally "tools". Other members are variables of the template, as in tft_chat_input. */
#ifndef QUANTIZE_TEXT_CHAT_FILE_H
#define QUANTIZE_TEXT_CHAT_FILE_H

#include <string.h>

#include "chat/tuffet_chat.h"
#include "tools/quantize/text/talks.h"

/* Bytes of the byte order mark at the start of the text, which files from Windows may have: 3 or
   0. */
static inline size_t chat_file_mark(const char *text)
{
    return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Adds the conversations as the template renders them. CLI_OK, or the exit status after a message
   that names the file and the line: the line is not JSON, has an unknown role, or the template
   refuses it. */
int chat_file_read(struct talks *out, const struct tft_model *m,
                   const struct tft_chat_template *t, const char *path, const char *text, size_t n);

#endif
