// Every kind of attribute, and the numbers that are hard to print.
==== the smallest graph
graph build "" {
}
---- same
==== all kinds of attributes on one op
graph build "marks" {
  %1 = no_op() {i = -3, f = 2.5, t = true, n = false, s = "a \"b\" \\ \x0a\xff", d = bf16, sh = shape[2,?], any = shape[...], scalar = shape[], is = [0, -1], none = [], ss = strings["a", ""], zs = sizes[10, -1], left = unset, "odd name" = 1, a = i64[2] [1, -2]} # "no_op"
}
---- same
==== floats read back to the same bits
graph build "floats" {
  %1 = no_op() {a = 0.0, b = -0.0, c = 0.1, d = 1e+300, e = 5e-324, f = -inf, g = inf, h = nan, i = nan(0xfff8000000000001), j = 123456789.0, k = 0.30000000000000004}
}
---- same
==== infinity is written small
graph build "floats" {
  %1 = no_op() {a = 1e2, b = 100.00, c = 0.1e0, d = 3.0E-1, e = +7, f = -INF}
}
---- INVALID_ARGUMENT
line 2: found '-', expected an attribute's value
==== other ways to write a float
graph build "floats" {
  %1 = no_op() {a = 1e2, b = 100.00, c = 0.1e0, e = +7}
}
---- text
graph build "floats" {
  %1 = no_op() {a = 100.0, b = 100.0, c = 0.1, e = 7}
}
==== constants of every dtype
graph build "constants" {
  %1 = constant() {value = f64[3] [0.1, -0, nan(0x7ff8000000000123)]} # "a" : f64[3]
  %2 = constant() {value = f32[2,4] [1, 2.5, 0.1, 1e-45, 3.4028235e+38, -inf, nan, nan(0xffc00001)]} # "b" : f32[2,4]
  %3 = constant() {value = f16[4] [1, 0.1, 65504, nan(0x7c01)]} # "c" : f16[4]
  %4 = constant() {value = bf16[4] [1, 0.1, 3.39e+38, nan]} # "d" : bf16[4]
  %5 = constant() {value = i8[2] [-128, 127]} # "e" : i8[2]
  %6 = constant() {value = i16[1] [-32768]} # "f" : i16[1]
  %7 = constant() {value = i32[] [2147483647]} # "g" : i32[]
  %8 = constant() {value = i64[2] [-9223372036854775808, 9223372036854775807]} # "h" : i64[2]
  %9 = constant() {value = u8[1] [255]} # "i" : u8[1]
  %10 = constant() {value = u16[1] [65535]} # "j" : u16[1]
  %11 = constant() {value = u32[1] [4294967295]} # "k" : u32[1]
  %12 = constant() {value = u64[1] [18446744073709551615]} # "l" : u64[1]
  %13 = constant() {value = bool[2] [true, false]} # "m" : bool[2]
  %14 = constant() {value = string[2] ["one", "\x00two"]} # "n" : string[2]
  %15 = constant() {value = c64[1] base64 "AACAPwAAAEA="} # "o" : c64[1]
  %16 = constant() {value = f32[0,3] []} # "p" : f32[0,3]
}
---- same
==== more than 64 bytes stand in base64
graph build "large" {
  %1 = constant() {value = i8[65] base64 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A="} # "large" : i8[65]
}
---- same
==== many numbers may be given one by one
graph build "large" {
  %1 = constant() {value = i8[66] [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66]} : i8[66]
}
---- text
graph build "large" {
  %1 = constant() {value = i8[66] base64 "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/QEFC"} : i8[66]
}
==== a number that its type cannot hold
graph build "g" {
  %1 = constant() {value = i8[1] [128]} : i8[1]
}
---- INVALID_ARGUMENT
line 2: an integer is 128; -128 to 127 is possible
==== too few elements
graph build "g" {
  %1 = constant() {value = i8[2] [1]} : i8[2]
}
---- INVALID_ARGUMENT
line 2: found ']', expected ','
==== a huge array in a small text takes no memory
graph build "g" {
  %1 = constant() {value = f32[1000000000000] base64 ""} : f32[1000000000000]
}
---- INVALID_ARGUMENT
line 2: invalid array f32[1000000000000]
==== base64 of another length
graph build "g" {
  %1 = constant() {value = i8[4] base64 "AAEC"} : i8[4]
}
---- INVALID_ARGUMENT
line 2: 4 characters are not the base64 digits of 4 bytes
==== base64 with a stray digit
graph build "g" {
  %1 = constant() {value = i8[3] base64 "AA*C"} : i8[3]
}
---- INVALID_ARGUMENT
line 2: 4 characters are not the base64 digits of 3 bytes
==== an escape that is none
graph build "g" {
  %1 = no_op() {s = "\n"}
}
---- INVALID_ARGUMENT
line 2: an escape in a string is not one of \" \\ \xHH
==== an attribute there twice
graph build "g" {
  %1 = no_op() {s = 1, s = 2}
}
---- INVALID_ARGUMENT
attribute 's' is there twice
graph text:2
==== an object that only this process has
graph build "g" {
  %1 = no_op() {s = object "queue"}
}
---- UNIMPLEMENTED
line 2: this 'queue' was an object of the process that printed the text: only variables can be parsed
==== bits of a nan that are a number
graph build "g" {
  %1 = constant() {value = f32[1] [nan(0x1)]} : f32[1]
}
---- INVALID_ARGUMENT
line 2: found '0x1', expected the bits of a nan, like 0x7e01,
==== bits of a nan that are infinite
graph build "g" {
  %1 = constant() {value = bf16[1] [nan(0xff80)]} : bf16[1]
}
---- INVALID_ARGUMENT
line 2: found '0xff80', expected the bits of a nan, like 0x7e01,
==== floats of 16 bits are rounded once
graph build "g" {
  %1 = constant() {value = f16[3] [1.00048828125, 1.000488281250001, -1.0004883]} : f16[3]
  %2 = constant() {value = bf16[3] [1.00390625, 1.003906250000001, -1.00390624999]} : bf16[3]
}
---- text
graph build "g" {
  %1 = constant() {value = f16[3] [1, 1.001, -1.001]} : f16[3]
  %2 = constant() {value = bf16[3] [1, 1.01, -1]} : bf16[3]
}
