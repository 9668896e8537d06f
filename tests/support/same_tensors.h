/* A new file keeps the tensors of another, all bytes of them, and has no others. */
#ifndef SAME_TENSORS_H
#define SAME_TENSORS_H

#include "test.h"

#include <string.h>

#include "file/source.h"

static void same_tensors(const struct tft_source *a, const struct tft_source *b)
{
    assert_int_equal(a->n_tensor, b->n_tensor);
    for (size_t i = 0; i < a->n_tensor; i++) {
        const struct tft_tensor *x = &a->tensor[i], *y = &b->tensor[i];
        assert_true(x->name.n == y->name.n && memcmp(x->name.p, y->name.p, x->name.n) == 0);
        assert_true(x->type == y->type && x->bytes == y->bytes);
        assert_memory_equal(x->data, y->data, (size_t)x->bytes);
    }
}

#endif
