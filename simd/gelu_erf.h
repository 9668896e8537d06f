/* GELU with erf (Hendrycks & Gimpel 2016), the same bits on every machine: no libm, no fma. */
#ifndef TFT_GELU_ERF_H
#define TFT_GELU_ERF_H

#include "contract.h"

/*
 * x (1 + erf(a)) / 2, a = x / sqrt(2). erf is Eigen's quotient of polynomials in a^2, good to a few
 * units in the last place; |a| is at most 4, where erf is 1 in floats.
 */
static inline float tft_gelu_erf(float x)
{
    float a = x * 0.70710678f, z, p = -2.72614225801306e-10f, q = -1.45660718464996e-05f;
    a = a > 4 ? 4 : a < -4 ? -4 : a;
    z = a * a;
    p = p * z + 2.77068142495902e-08f;
    p = p * z - 2.10102402082508e-06f;
    p = p * z - 5.69250639462346e-05f;
    p = p * z - 7.34990630326855e-04f;
    p = p * z - 2.95459980854025e-03f;
    p = p * z - 1.60960333262415e-02f;
    q = q * z - 2.13374055278905e-04f;
    q = q * z - 1.68282697438203e-03f;
    q = q * z - 7.37332916720468e-03f;
    q = q * z - 1.42647390514189e-02f;
    return 0.5f * x * (1 + a * p / q);
}

#endif
