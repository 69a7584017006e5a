// A comment.
graph build "g" { %1 = constant() { value = f32 [ 2 ] [ 1, 2 ] } : f32[2] // Another.
  %2 = add(%1,%1)#"sum":f32[2]
    }
