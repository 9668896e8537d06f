/* A build without jansson. */
#include "tools/quantize/text/chat_file.h"

#include "tools/cli/cli.h"

int chat_file_read(struct talks *out, const struct tft_model *m,
                   const struct tft_chat_template *t, const char *path, const char *text, size_t n)
{
    (void)out, (void)m, (void)t, (void)text, (void)n;
    return cli_fail("%s: has conversations as JSON, and tuffet was built without jansson, which "
                    "reads it",
                    path);
}
