/* Each public header needs nothing before it, in C99, C11 and C++. */
#if defined TEST_CHAT
#include "tuffet_chat.h"
#elif defined TEST_QUANTIZE
#include "tuffet_quantize.h"
#endif
#include "tuffet.h"

int main(void)
{
#if defined TEST_CHAT
    tft_chat_close(NULL);
#elif defined TEST_QUANTIZE
    tft_quantize_free(NULL);
#endif
    return tft_version()[0] == '0' + TFT_VERSION_MAJOR &&
                   tft_version_number() == TFT_VERSION_NUMBER
               ? 0
               : 1;
}
