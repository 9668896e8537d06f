/* cmocka, and the headers that must be included before it. */
#ifndef TFT_TEST_H
#define TFT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
