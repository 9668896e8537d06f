/*
 * The input is a JSON Schema; a space in front lets properties come in any order. It becomes the
 * text of a grammar, the same each time, or it is refused with a message. test_schema checks that
 * such texts are grammars.
 */
#include "fuzz.h"

#include "chat/tuffet_chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tft_chat_text text, again;
    struct tft_error err = {0};
    unsigned flags = size && data[0] == ' ' ? TFT_SCHEMA_ANY_ORDER : 0;
    enum tft_status status = tft_chat_schema(&text, (const char *)data, size, flags, &err);
    MUST(status == tft_chat_schema(&again, (const char *)data, size, flags, NULL));
    if (status == TFT_OK) {
        MUST(text.n == again.n && memcmp(text.p, again.p, text.n) == 0 && !text.p[text.n]);
        MUST(!text.trusted && strncmp(text.p, "root ::= r", 10) == 0);
    } else {
        MUST(err.code == status && err.msg[0] && !strchr(err.msg, '\n') && !text.p);
    }
    tft_chat_text_free(&text);
    tft_chat_text_free(&again);
    return 0;
}
