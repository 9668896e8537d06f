/*
 * The first byte is the kind of the rest. Odd: a checkpoint. Even: the header of a checkpoint, with
 * made-up data in the size that the header asks for, then a tokenizer. So a fuzzer need not guess a
 * size to get past the header.
 */
#include "fuzz.h"

#include "blob.h"
#include "file/llama2c.h"

enum { HEADER = 28, LARGEST = 1 << 16 };

/* The size that a header asks for; HEADER if it is more than a test should take. */
static size_t checkpoint_size(const unsigned char *header)
{
    double v[7];
    for (int i = 0; i < 7; i++)
        v[i] = (int32_t)tft_load_u32(header + 4 * i);
    double dim = v[0], hidden = v[1], layers = v[2], heads = v[3], kv_heads = v[4], vocab = v[5],
           seq = v[6];
    if (heads < 1)
        return HEADER;
    double n = dim * (vocab > 0 ? vocab : -2 * vocab) + dim + seq * dim / heads;
    n += layers * (2 * dim + 2 * dim * dim + 2 * dim * dim / heads * kv_heads + 3 * dim * hidden);
    return n > 0 && n < LARGEST ? HEADER + 4 * (size_t)n : HEADER;
}

static void open_both(const unsigned char *checkpoint, size_t size, const uint8_t *tokenizer,
                      size_t tokenizer_size)
{
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    unsigned char *copy = exact_copy(tokenizer, tokenizer_size);
    struct tft_source s = {.name = "m.bin",
                           .data = checkpoint,
                           .size = size,
                           .tokenizer = copy,
                           .tokenizer_size = tokenizer_size,
                           .allocator = &a};
    struct tft_error err = {0};
    enum tft_status status = tft_llama2c_read(&s, tokenizer_size ? "tok.bin" : NULL, &err);
    MUST(tft_llama2c_probe(checkpoint, size) || status == TFT_ERR_FORMAT);
    if (status)
        fuzz_check_error(&err, status, err.msg[0] == 't' ? "tok.bin" : "m.bin");
    else
        fuzz_walk(&s);
    tft_source_close(&s);
    fuzz_check_memory(&m, size + tokenizer_size);
    MUST(m.in_use == 0);
    tft_port_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 + HEADER)
        return 0;
    bool made_up = data[0] % 2 == 0;
    size_t n = made_up ? checkpoint_size(data + 1) : size - 1, from_input = made_up ? HEADER : n;
    unsigned char *checkpoint = calloc(n, 1);
    MUST(checkpoint);
    memcpy(checkpoint, data + 1, from_input);
    open_both(checkpoint, n, data + 1 + from_input, size - 1 - from_input);
    free(checkpoint);
    return 0;
}
