graph build "" {
}
