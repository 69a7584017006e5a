graph build "floats" {
  %1 = no_op() {a = 0.0, b = -0.0, c = 0.1, d = 1e+300, e = 5e-324, f = -inf, g = inf, h = nan, i = nan(0xfff8000000000001), j = 123456789.0, k = 0.30000000000000004}
}
