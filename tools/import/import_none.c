/* A build without jansson. */
#include "import.h"

#include "base/error.h"

static enum tft_status refuse(const char *folder, struct tft_error *err)
{
    return tft_fail(err, TFT_ERR_UNSUPPORTED,
                    "%s: is a folder, and tuffet was built without jansson, which reads its JSON",
                    folder);
}

enum tft_status import_temp(const char *folder, const char *path, const struct import_opts *o,
                             struct import_result *r, struct tft_new_file **temp,
                             struct tft_error *err)
{
    (void)path, (void)o;
    *r = (struct import_result){0};
    *temp = NULL;
    return refuse(folder, err);
}

enum tft_status import_adapter(const char *folder, const char *base, const char *path,
                               const struct import_opts *o, struct import_result *r,
                               struct tft_error *err)
{
    (void)base, (void)path, (void)o;
    *r = (struct import_result){0};
    return refuse(folder, err);
}

enum tft_status import_model(const char *folder, const char *path, const struct import_opts *o,
                             struct import_result *r, struct tft_error *err)
{
    struct tft_new_file *temp;
    return import_temp(folder, path, o, r, &temp, err);
}
