graph build "floats" {
  %1 = no_op() {a = 1e2, b = 100.00, c = 0.1e0, d = 3.0E-1, e = +7, f = -INF}
}
---- INVALID_ARGUMENT
line 2: '-' stands where an attribute's value should
==== other ways to write a float
graph build "floats" {
  %1 = no_op() {a = 1e2, b = 100.00, c = 0.1e0, e = +7}
}
