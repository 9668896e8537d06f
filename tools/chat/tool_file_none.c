/* A build without jansson. */
#include "tool_file.h"

int tool_file_read(struct tool_file *f, const char *path)
{
    (void)f;
    return cli_fail("--tools %s: tuffet was built without jansson (Debian: libjansson-dev), which "
                    "reads the file",
                    path);
}

void tool_file_free(struct tool_file *f) { (void)f; }
