/* Conversations of a calibration text: each is a line of JSON, an object with OpenAI's "messages",
   and optionally "tools". Other members are variables of the template, as in tft_chat_input. */
#ifndef QUANTIZE_TEXT_CHAT_FILE_H
#define QUANTIZE_TEXT_CHAT_FILE_H

#include "tools/quantize/job/job.h"
#include "tools/quantize/text/talks.h"

/* Adds the conversations of the calibration text as j->format renders them. A failure names the
   text and the line: the line is not JSON, has an unknown role, or the template refuses it. */
enum tft_status chat_file_read(struct talks *out, struct job *j);

#endif
