graph function "g" {
  %1 = parameter() {dtype = f32, shape = shape[3], index = 0} # "x" : f32[3]
  %2 = reshape(%1) {sizes = sizes[3, 1], m0 = 0, m1 = 1, m2 = 2, m3 = 3, m4 = 4, m5 = 5, m6 = 6, m7 = 7, m8 = 8, m9 = 9, m10 = 10, m11 = 11, m12 = 12, m13 = 13, m14 = 14, m15 = 15, m16 = 16, m17 = 17, m18 = 18, m19 = 19, m20 = 20, m21 = 21, m22 = 22, m23 = 23, m24 = 24, m25 = 25, m26 = 26, m27 = 27, m28 = 28, m29 = 29} # "y" : f32[3,1]
  return %2
}
