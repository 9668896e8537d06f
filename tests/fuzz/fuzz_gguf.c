/* The input is a GGUF file. */
#include "fuzz.h"

#include "blob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    unsigned char *copy = exact_copy(data, size);
    struct tft_source s;
    struct tft_error err = {0};
    enum tft_status status = tft_source_open_mem(&s, "m.gguf", copy, size, &a, &err);
    if (status)
        fuzz_check_error(&err, status, "m.gguf");
    else
        fuzz_walk(&s);
    tft_source_close(&s);
    fuzz_check_memory(&m, size);
    MUST(m.in_use == 0);
    tft_port_free(copy);
    return 0;
}
