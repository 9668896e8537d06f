/*
 * AltUp (Baykal et al. 2023, arXiv 2301.13310) and Laurel (Menghani et al. 2024, arXiv 2411.07501),
 * as in Gemma 3n: n residual streams X_0 .. X_{n-1}, of which layers compute with the first, and a
 * product of low rank beside attention.
 *
 *      begin:      X_0 = x;  X_j = A_j x |x| / |A_j x|                     |x|: the length
 *      m(x) = tanh(Wr (rms(x) g_r / D))                                    [n]
 *      predict:    C = Wp m(X_0) as [n, n];  P_i = X_i + sum over j of C_ij X_j
 *      laurel(h) = h + rms(Wright Wleft h) g                               rank 64
 *      correct:    y: what the layer makes of P_0;  c = 1 + Wc m(y)
 *                  X_i = P_i + (y - P_0) c_i
 *      end:        x = (X_0 + sum over j of U_j X_j |X_0| / |U_j X_j|) / n
 *
 * In W8A8 files the matrices stay as they are.
 */
#ifndef TFT_ALTUP_H
#define TFT_ALTUP_H

#include "model/model.h"

/* Reads n, altup.num_inputs. */
void tft_altup_shape(struct tft_load *ld);

/* Load the matrices A and U, and the tensors of a layer. */
void tft_altup_load(struct tft_load *ld);
void tft_altup_load_layer(struct tft_load *ld, unsigned layer);

#endif
