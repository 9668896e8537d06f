/* A build without jansson. */
#include "tools/quantize/text/chat_file.h"

enum tft_status chat_file_read(struct talks *out, struct job *j)
{
    (void)out;
    return tft_fail(j->err, TFT_ERR_UNSUPPORTED,
                    "%s: has conversations as JSON, and tuffet was built without jansson, which "
                    "reads it",
                    j->o->calib_name);
}
