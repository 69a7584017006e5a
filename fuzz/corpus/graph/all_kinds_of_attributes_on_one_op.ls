graph build "marks" {
  %1 = no_op() {i = -3, f = 2.5, t = true, n = false, s = "a \"b\" \\ \x0a\xff", d = bf16, sh = shape[2,?], any = shape[...], scalar = shape[], is = [0, -1], none = [], ss = strings["a", ""], zs = sizes[10, -1], left = unset, "odd name" = 1, a = i64[2] [1, -2]} # "no_op"
}
