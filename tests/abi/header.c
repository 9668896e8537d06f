/* tuffet.h needs nothing before it, in C99, C11 and C++. */
#include "tuffet.h"

int main(void)
{
    return tft_version()[0] == '0' + TFT_VERSION_MAJOR &&
                   tft_version_number() == TFT_VERSION_NUMBER
               ? 0
               : 1;
}
