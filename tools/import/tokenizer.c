#include "tokenizer.h"

void import_tokenizer(struct import *im)
{
    import_fail(im, TFT_ERR_UNSUPPORTED,
                "%s: the tokenizer of a folder cannot be imported yet: use --no-tokenizer",
                im->folder.path);
}
