#include "as_folder_inside.h"

#include <math.h>
#include <string.h>

#include "base/exp_log.h"

/* The head of values in the GGUF file that becomes head i of the folder. */
static uint64_t head_of(struct heads h, uint64_t i)
{
    uint64_t of_one = h.values / h.keys;
    return i % of_one * h.keys + i / of_one;
}

/* The same of one of n rows, the last of which are of these heads. */
static uint64_t v_row_of(struct heads h, uint64_t n, uint64_t r)
{
    uint64_t unit = n == h.values ? 1 : h.dim, first = n - h.values * unit;
    return r < first ? r : first + head_of(h, (r - first) / unit) * unit + (r - first) % unit;
}

/* The row of the GGUF file's tensor that is row r of the folder's. */
static uint64_t row_of(const struct toy *t, enum how how, uint64_t r)
{
    uint32_t e = t->head_dim ? t->head_dim : 1; /* 0: no attention */
    uint64_t head = r / e, x = r % e;
    if (how == ROTATED) /* first all first partners of a head, then all second ones */
        return head * e + (x < e / 2 ? 2 * x : 2 * (x - e / 2) + 1);
    if (how != QKV && how != QKV_ROTATED)
        return r;
    if (how == QKV_ROTATED && head % (t->n_head / t->n_head_kv + 2) <= t->n_head / t->n_head_kv)
        x = x < e / 2 ? 2 * x : 2 * (x - e / 2) + 1; /* of a query or a key */
    uint32_t of_one = t->n_head / t->n_head_kv;
    uint64_t group = head / (of_one + 2), place = head % (of_one + 2);
    return x + e * (place < of_one    ? group * of_one + place
                    : place == of_one ? t->n_head + group
                                      : t->n_head + t->n_head_kv + group);
}

void as_folder_put_head(struct out *out, const char *name, enum tft_dtype type, uint64_t matrices,
                        uint64_t rows, uint64_t cols, bool vector, uint64_t bytes)
{
    fprintf(out->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", out->at ? "," : "{", name,
            type == TFT_F32   ? "F32"
            : type == TFT_F16 ? "F16"
                              : "BF16");
    if (matrices > 1)
        fprintf(out->header, "%llu,", (unsigned long long)matrices);
    if (strstr(name, "shared_expert_gate") || strstr(name, "moe_statics"))
        fputs("1,", out->header);
    if (strstr(name, ".attn.x_"))
        fputs("1,1,", out->header);
    if (!vector)
        fprintf(out->header, "%llu,%s", (unsigned long long)rows,
                strstr(name, "conv.conv") || strstr(name, "conv1d") ? "1," : "");
    fprintf(out->header, "%llu],\"data_offsets\":[%llu,%llu]}", (unsigned long long)cols,
            (unsigned long long)out->at, (unsigned long long)(out->at + bytes));
    out->at += bytes;
}

/* A float with -x as its exp, or nearly so if there is no such float. */
static float log_of(float x)
{
    float y = (float)log(-(double)x);
    for (int i = 0; i < 4 && -(float)tft_exp((double)y) != x; i++)
        y = nextafterf(y, -(float)tft_exp((double)y) > x ? 9 : -9);
    return y;
}

/* Multipliers of falcon-h1, as write_config has them: powers of two, so that quotients and products
   have the same bits. Rows of in_proj belong to z, x, b, c and the steps. */
static float multiplier_of(const struct toy *t, const char *name, uint64_t row)
{
    static const struct {
        const char *part;
        float by;
    } parts[] = {{"embed_tokens", 4}, {"lm_head", 0.5f},     {"q_proj", 2},
                 {"k_proj", 0.5f},    {"v_proj", 2},         {"o_proj", 0.25f},
                 {"gate_proj", 8},    {"down_proj", 0.125f}, {"out_proj", 2}};
    static const float ssm[] = {0.25f, 2, 4, 0.5f, 16};
    enum { WIDTH = 64, SHARED = 2 * 24 };
    if (!as_folder_is(t, "falcon-h1"))
        return 1;
    if (strstr(name, "in_proj"))
        return 0.5f * ssm[row < WIDTH                  ? 0
                          : row < 2 * WIDTH            ? 1
                          : row < 2 * WIDTH + SHARED   ? 2
                          : row < 2 * (WIDTH + SHARED) ? 3
                                                       : 4];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i].part))
            return parts[i].by;
    return 1;
}

/* The numbers of one row or column, and of norms of gemma and qwen35 less by 1. */
static void put_numbers(struct out *out, const struct toy *t, const struct tft_tensor *from,
                        const char *name, uint64_t first, uint64_t step, uint64_t n)
{
    uint32_t size = from->type == TFT_F32 ? 4 : 2;
    bool less =
             as_folder_in(" gemma gemma2 gemma3 qwen35 qwen35moe qwen3next nemotron ", t->arch) &&
             strstr(name, "norm") && !strstr(name, "bias") && !strstr(name, "linear_attn.norm"),
         decay = strstr(name, "A_log");
    float by = multiplier_of(t, name, first / from->ne[0]);
    for (uint64_t i = 0; i < n; i++) {
        unsigned char x[4];
        memcpy(x, from->data + (first + i * step) * size, size);
        if (less || decay || by != 1) {
            float f;
            memcpy(&f, x, 4);
            f = decay ? log_of(f) : less ? f - 1 : f / by;
            memcpy(x, &f, 4);
        }
        fwrite(x, size, 1, out->data);
    }
}

/* Numbers of 16 bits as f32. */
static void put_floats(struct out *out, const struct tft_tensor *from, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x;
        tft_dtype_info(from->type)->to_f32(&x, from->data + 2 * (first + i), 1);
        fwrite(&x, 4, 1, out->data);
    }
}

/* Numbers that become the given ternary matrix when they are rounded: its numbers are the nearest
   ones, and the mean magnitude is the same. Of each pair, 1.75 and 0.25 times the magnitude, or 1.5
   and 0.5; half the magnitude becomes 0. */
static void put_widened(struct out *out, const struct tft_tensor *from)
{
    for (uint64_t i = 0; i < from->ne[0] * from->ne[1]; i++) {
        float x, far = i / 2 % 2 ? 1.5f : 1.75f;
        memcpy(&x, from->data + 4 * i, 4);
        x = x != 0 ? x * far : (i % 3 ? 2 - far : far - 2) * AS_FOLDER_TERNARY;
        fwrite(&x, 4, 1, out->data);
    }
}

/* mimo2's rows of queries, keys and values as three tensors. */
static void put_split(struct out *out, const struct toy *t, const struct tft_tensor *from,
                      const char *name)
{
    uint64_t cols = from->ne[0], q = (uint64_t)t->n_head * t->head_dim,
             kv = (from->ne[1] - q) / (t->head_dim + SHORT_VALUE), first = 0;
    const uint64_t rows[] = {q, kv * t->head_dim, kv * SHORT_VALUE};
    for (int i = 0; i < 3; i++) {
        char one[160];
        snprintf(one, sizeof one, name, "qkv"[i]);
        as_folder_put_head(out, one, from->type, 1, rows[i], cols, false,
                           from->bytes / from->ne[1] * rows[i]);
        put_numbers(out, t, from, name, first * cols, 1, rows[i] * cols);
        first += rows[i];
    }
}

void as_folder_put_tensor(struct out *out, const struct toy *t, const struct tft_tensor *from,
                          const struct tft_tensor *up, const char *name, enum how how)
{
    uint64_t cols = from->ne[0], rows = from->ne[1], matrices = from->ne[2];
    bool vector = from->n_dims == 1;
    if (!vector && (cols == 1 || strstr(name, "mixer.norm"))) { /* of Mamba-2: a row for each head,
                                                                   or for each group */
        cols *= rows;
        rows = 1;
        vector = true;
    }
    if (how == APART) {
        for (uint64_t r = 0; r < rows; r++) {
            char one[160];
            snprintf(one, sizeof one, "%.*s.%llu.weight", (int)(strlen(name) - 7), name,
                     (unsigned long long)r);
            as_folder_put_head(out, one, from->type, 1, 1, cols, true, from->bytes / rows);
            put_numbers(out, t, from, name, r * cols, 1, cols);
        }
        return;
    }
    if (how == EXPERTS) {
        for (uint64_t x = 0; x < from->ne[2]; x++) {
            char one[160];
            snprintf(one, sizeof one, name, (unsigned)x);
            if (x % 2 && from->type != TFT_F32) { /* a folder may have several types */
                as_folder_put_head(out, one, TFT_F32, 1, rows, cols, false, 4 * rows * cols);
                put_floats(out, from, x * rows * cols, rows * cols);
                continue;
            }
            as_folder_put_head(out, one, from->type, 1, rows, cols, false,
                               from->bytes / from->ne[2]);
            put_numbers(out, t, from, name, x * rows * cols, 1, rows * cols);
        }
        return;
    }
    if (how == LERPS) {
        for (const char *letter = "rwkvag"; *letter; letter++) {
            char one[160];
            snprintf(one, sizeof one, name, *letter);
            as_folder_put_head(out, one, from->type, 1, 1, cols, true, from->bytes / 6);
            put_numbers(out, t, from, name, (uint64_t)(strchr("rwkvag", *letter) - "rwkvag") * cols,
                        1, cols);
        }
        return;
    }
    if (how == SPLIT) {
        put_split(out, t, from, name);
        return;
    }
    if (how == HEADS) {
        uint64_t n = t->numbers ? 16 : 32;
        as_folder_put_head(out, name, from->type, 1, cols / n, n, false, from->bytes);
        put_numbers(out, t, from, name, 0, 1, cols);
        return;
    }
    if (how == TRANSPOSED && !vector) {
        as_folder_put_head(out, name, from->type, 1, cols, rows, false, from->bytes);
        for (uint64_t c = 0; c < cols; c++)
            put_numbers(out, t, from, name, c, cols, rows);
        return;
    }
    if (how == TURNED_WITH_UP) { /* columns, or numbers of biases, of both in turns */
        uint64_t n = from->n_dims == 3 ? rows : cols, all = matrices > 1 ? matrices : rows;
        if (from->n_dims == 3)
            as_folder_put_head(out, name, from->type, matrices, cols, 2 * rows, false,
                               2 * from->bytes);
        else
            as_folder_put_head(out, name, from->type, 1, rows, 2 * cols, false, 2 * from->bytes);
        for (uint64_t x = 0; x < all; x++)
            for (uint64_t c = 0; c < (from->n_dims == 3 ? cols : 1); c++)
                for (uint64_t r = 0; r < 2 * n; r++) {
                    uint64_t at =
                        from->n_dims == 3 ? (x * rows + r / 2) * cols + c : x * cols + r / 2;
                    put_numbers(out, t, r % 2 ? up : from, name, at, 1, 1);
                }
        return;
    }
    if (how == TURNED && from->n_dims == 3) {
        as_folder_put_head(out, name, from->type, matrices, cols, rows, false, from->bytes);
        for (uint64_t x = 0; x < matrices; x++)
            for (uint64_t c = 0; c < cols; c++)
                put_numbers(out, t, from, name, x * rows * cols + c, cols, rows);
        return;
    }
    if (how == QKVZ) { /* up: z */
        uint64_t keys = out->heads.keys, of_one = out->heads.values / keys,
                 n = out->heads.dim * cols; /* numbers of a head */
        as_folder_put_head(out, name, from->type, 1, rows + up->ne[1], cols, false,
                           from->bytes + up->bytes);
        for (uint64_t k = 0; k < keys; k++) {
            put_numbers(out, t, from, name, k * n, 1, n);
            put_numbers(out, t, from, name, (keys + k) * n, 1, n);
            put_numbers(out, t, from, name, (2 * keys + k * of_one) * n, 1, of_one * n);
            put_numbers(out, t, up, name, k * of_one * n, 1, of_one * n);
        }
        return;
    }
    if (how == WITH_UP) {
        as_folder_put_head(out, name, from->type, matrices, 2 * rows, cols, false, 2 * from->bytes);
        for (uint64_t x = 0; x < 2 * matrices; x++)
            put_numbers(out, t, x % 2 ? up : from, name, x / 2 * rows * cols, 1, rows * cols);
        return;
    }
    if (how == WIDENED) {
        as_folder_put_head(out, name, TFT_F32, 1, rows, cols, false, 4 * rows * cols);
        put_widened(out, from);
        return;
    }
    as_folder_put_head(out, name, from->type, matrices, rows, cols, vector, from->bytes);
    if (how == V_COLUMNS)
        for (uint64_t i = 0; i < rows * out->heads.values; i++)
            put_numbers(out, t, from, name,
                        i / out->heads.values * cols +
                            head_of(out->heads, i % out->heads.values) * out->heads.dim,
                        1, out->heads.dim);
    else if (how == V_ROWS)
        for (uint64_t i = 0, n = vector ? cols : rows, width = vector ? 1 : cols; i < n; i++)
            put_numbers(out, t, from, name, v_row_of(out->heads, n, i) * width, 1, width);
    else if (vector)
        for (uint64_t c = 0; c < cols; c++)
            put_numbers(out, t, from, name, row_of(t, how, c), 1, 1);
    else
        for (uint64_t r = 0; r < rows * matrices; r++)
            put_numbers(out, t, from, name, row_of(t, how, r) * cols, 1, cols);
}

const struct tft_tensor *as_folder_up_of(const struct tft_source *s, const char *gate)
{
    char name[64];
    const char *at = strstr(gate, "gate"), *qkv = strstr(gate, "attn_qkv");
    if (qkv) { /* of a delta net: z */
        snprintf(name, sizeof name, "%.*sattn_gate.weight", (int)(qkv - gate), gate);
        return tft_source_tensor(s, name);
    }
    if (!at)
        return NULL;
    snprintf(name, sizeof name, "%.*sup%s", (int)(at - gate), gate, at + 4);
    return tft_source_tensor(s, name);
}
