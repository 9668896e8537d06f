/* A plug-in of the same version as the library, but built from other headers. */
#include "backend/device.h"

TFT_API tft_device_fn tft_device;

const struct tft_backend *tft_device(void)
{
    static const struct tft_backend other = {.build_id = TFT_TEST_VERSION " (build 0)"};
    return &other;
}
