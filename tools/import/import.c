#include "import.h"

#include <stdlib.h>
#include <string.h>

#include "archs.h"
#include "config.h"
#include "modules.h"
#include "quantized.h"
#include "quantized_config.h"
#include "rope.h"
#include "tokenizer.h"
#include "unread.h"
#include "w8a8.h"
#include "weights.h"

/* Chooses the architecture by the first class that config.json names: the whole model's, or else
   its text model's. */
static void choose_arch(struct import *im)
{
    const json_t *config = im->folder.config, *part = json_object_get(config, "text_config");
    const json_t *classes = json_object_get(config, "architectures"),
                 *inner_classes = json_object_get(part, "architectures");
    const char *name = json_string_value(json_array_get(classes, 0)),
               *inner = json_string_value(json_array_get(inner_classes, 0));
    if (!name && !inner) {
        import_fail(im, TFT_ERR_FORMAT, "%s/config.json: \"architectures\" is missing",
                    im->folder.path);
        return;
    }
    im->text = part ? part : config;
    im->arch = name ? import_find_arch(im, name) : NULL;
    if (!im->arch && inner)
        im->arch = import_find_arch(im, inner);
    if (!im->arch)
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s/config.json: the class %.64s is not supported",
                    im->folder.path, name ? name : inner);
    else if (im->arch->defaults)
        im->status = import_json_parse(&im->defaults, im->arch->name, im->arch->defaults,
                                       strlen(im->arch->defaults), 0, im->err);
}

static void write_values(struct import *im, const struct import_modules *m,
                         const struct import_opts *o)
{
    static const uint32_t file_type[] = {[IMPORT_F32] = 0, [IMPORT_F16] = 1, [IMPORT_BF16] = 32};
    im->context = import_context(im);
    import_values(im);
    import_modules_values(im, m);
    if (!im->arch->no_rope && im->status == TFT_OK)
        import_rope_values(im);
    if (o->type != IMPORT_KEEP)
        tft_gguf_put_u32(im->gguf, "general.file_type", file_type[o->type]);
    if (!o->no_tokenizer && im->status == TFT_OK)
        import_tokenizer(im);
}

/* The file at `path` must open: a folder may have numbers and merges that the library refuses. */
static enum tft_status check_opens(const struct import *im, const char *path,
                                   struct tft_error *err)
{
    struct tft_model_opts o = {.size = sizeof o};
    struct tft_model *m;
    struct tft_error why;
    enum tft_status status = tft_model_open(&m, path, &o, &why);
    tft_model_close(m);
    if (status == TFT_OK)
        return TFT_OK;
    size_t n = strlen(path);
    bool named = strncmp(why.msg, path, n) == 0 && why.msg[n] == ':';
    return import_error(err, status, "%s: its GGUF file would not open:%s%s", im->folder.path,
                        named ? "" : " ", why.msg + (named ? n + 1 : 0));
}

/* Ends the file, which has no name yet. */
static enum tft_status complete(struct import *im, struct tft_new_file **temp,
                                struct tft_error *err)
{
    enum tft_status status = tft_gguf_complete(im->gguf, temp, err);
    if (status == TFT_OK)
        status = check_opens(im, (*temp)->temp.name, err);
    if (status != TFT_OK && *temp) {
        tft_new_file_end(*temp, false, NULL);
        *temp = NULL;
    }
    return status;
}

static bool goes_on(const struct import *im, const struct import_result *r)
{
    return im->status == TFT_OK && !r->stopped;
}

enum tft_status import_temp(const char *folder, const char *path, const struct import_opts *o,
                             struct import_result *r, struct tft_new_file **temp,
                             struct tft_error *err)
{
    struct import im = {.err = err, .ignore = o->ignore_keys, .seen = json_object()};
    struct import_weights w = {.o = o, .r = r};
    struct import_modules modules = {0};
    *r = (struct import_result){0};
    *temp = NULL;
    im.status = import_folder_open(&im.folder, folder, err);
    if (im.status == TFT_OK)
        im.status = import_modules_open(&modules, &im.folder, err);
    if (im.status == TFT_OK)
        choose_arch(&im);
    if (im.status == TFT_OK)
        import_dimensions(&im);
    if (im.status == TFT_OK && !import_ignores(&im, "quantization_config"))
        im.status = import_quantized_check(&im.folder, err);
    if (im.status == TFT_OK)
        im.status = import_quantized_open(&im.folder, err);
    if (im.status == TFT_OK)
        import_weights_begin(&im, &w);
    if (im.status == TFT_OK)
        im.status = tft_gguf_create(&im.gguf, path, err);
    if (im.status == TFT_OK)
        write_values(&im, &modules, o);
    if (im.status == TFT_OK)
        import_weights_plan(&im, &w);
    if (goes_on(&im, r))
        import_weights_values(&im, &w);
    if (goes_on(&im, r))
        import_weights_describe(&im, &w);
    if (goes_on(&im, r))
        import_refuse_unread(&im, o);
    if (goes_on(&im, r) && o->begin)
        r->stopped = !o->begin(o->user, r->bytes);
    if (goes_on(&im, r))
        import_weights_write(&im, &w);
    bool keep = goes_on(&im, r);
    enum tft_status closed =
        keep ? complete(&im, temp, err) : tft_gguf_close(im.gguf, false, NULL);
    import_weights_end(&w);
    import_w8a8_free(&im);
    import_rope_free(&im);
    free(im.kv_heads);
    free(im.ffs);
    json_decref(im.seen);
    json_decref(im.defaults);
    import_modules_close(&modules);
    import_folder_close(&im.folder);
    free(im.made);
    return keep ? closed : im.status;
}

enum tft_status import_model(const char *folder, const char *path, const struct import_opts *o,
                             struct import_result *r, struct tft_error *err)
{
    struct tft_new_file *temp;
    enum tft_status status = import_temp(folder, path, o, r, &temp, err);
    return temp ? tft_new_file_end(temp, true, err) : status;
}
