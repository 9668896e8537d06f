/* The file of --tools: OpenAI's declarations of functions, each with the command that computes
   it. */
#ifndef TOOL_FILE_H
#define TOOL_FILE_H

#include "tools/cli/cli.h"

struct tool_command {
    char **argv; /* NULL ends it */
    uint32_t seconds;
    size_t bytes; /* of output for the model */
};

/* Starts from all zero. */
struct tool_file {
    char *json; /* [n_json] the declarations alone, without commands */
    size_t n_json;
    char *framed; /* the same, each with the outer frame that it may lack */
    struct tool_command *command; /* [n] in the order of the declarations */
    size_t n;
};

/* Reads a JSON list. Each item has a member `command`, and may have `seconds` and `bytes`; the rest
   of an item is its declaration, of which only the names of members are checked. A relative path of
   a command starts from the folder of the file. Returns CLI_OK, or CLI_FAILED after an error
   message. The caller frees the file in either case. */
int tool_file_read(struct tool_file *f, const char *path);
void tool_file_free(struct tool_file *f);

#endif
