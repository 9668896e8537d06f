/* Tools: functions that the model may call, and the commands that compute them (--tools). */
#ifndef TOOLS_H
#define TOOLS_H

#include "tool_file.h"
#include "tools/cli/template.h"

/* Starts from all zero. */
struct tools {
    const char *path;
    struct tft_chat_tools *declared;
    struct tool_file file;
    struct tft_chat_text ask;
    struct template_tools shown;
};

/* Reads the file of --tools, for the call format of the template's models. Returns CLI_OK, or
   CLI_FAILED after an error message. The caller closes the tools in either case. */
int tools_open(struct tools *t, const char *path, const struct template_format *f);
void tools_close(struct tools *t);

/* The number of the tool name[n]; the number of tools if there is none. */
size_t tools_find(const struct tools *t, const char *name, size_t n);

/* Runs the command of a tool with the arguments of a call. *out, which is empty, becomes the result
   for the model: the command's output, and any error in brackets. The caller frees it. false: out
   of memory. */
bool tools_run(const struct tools *t, size_t tool, const struct cli_text *arguments,
               struct cli_text *out);

#endif
