graph build "large" {
  %1 = constant() {value = i8[65] base64 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A="} # "large" : i8[65]
}
