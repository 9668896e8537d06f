/* Writes a model of random weights in a well-known shape, for scripts that need its file:
 *
 *      lab_shape NAME FILE
 */
#include <stdio.h>

#include "tools/bench/shape.h"

static bool go_on(double done)
{
    (void)done;
    return true;
}

int main(int argc, char **argv)
{
    struct tft_error err;
    if (argc != 3) {
        fprintf(stderr, "lab_shape NAME FILE: NAME is one of %s\n", SHAPE_NAMES);
        return 2;
    }
    struct shape_opts o = {.name = argv[1], .bits = 8, .progress = go_on};
    if (shape_write(&o, argv[2], &err) != TFT_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    return 0;
}
