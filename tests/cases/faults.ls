// What is wrong with a text, where, and what would be right.
==== nothing at all
---- INVALID_ARGUMENT
line 1: the text ends, expected 'graph'
==== no graph
hello world
---- INVALID_ARGUMENT
line 1: found 'hello', expected 'graph'
==== a stage that there is not
graph eager "g" {
}
---- INVALID_ARGUMENT
line 1: found 'eager', expected build, function, region or lowered
==== no end
graph build "g" {
  %1 = no_op()
---- INVALID_ARGUMENT
line 3: the text ends, expected '%', 'return' or '}'
==== more than one graph
graph build "g" {
}
graph build "h" {
}
---- INVALID_ARGUMENT
line 3: found 'graph', expected the end of the text
==== a string without an end
graph build "g {
}
---- INVALID_ARGUMENT
line 1: an unterminated string, expected a graph's name
==== a stray character
graph build "g" {
  %1 = no_op() ; second
}
---- INVALID_ARGUMENT
line 2: found ';', expected '%', 'return' or '}'
==== an op that there is not
graph build "g" {
  %1 = frobnicate()
}
---- INVALID_ARGUMENT
line 2: found 'frobnicate', expected the name of an op
==== a value before it is made
graph build "g" {
  %1 = neg(%2) : f32[]
}
---- INVALID_ARGUMENT
line 2: %2:0 is no output of an op before this place in graph 'g'
==== an output that there is not
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = neg(%1:1) : f32[]
}
---- INVALID_ARGUMENT
line 3: %1:1 is no output
==== ids go up
graph build "g" {
  %2 = no_op()
  %2 = no_op()
}
---- INVALID_ARGUMENT
line 3: an op's number is 2; 3 to
==== a control input that there is not
graph build "g" {
  %1 = no_op() ^%7
}
---- INVALID_ARGUMENT
line 2: control input ^%7 is no op before this one
==== types without their number
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[], f32[]
}
---- INVALID_ARGUMENT
line 2: op %1 has 2 types
==== a type that there is not
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f33[]
}
---- INVALID_ARGUMENT
line 2: found 'f33', expected a type like f32[2,?]
==== too many dimensions
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1,1,1,1,1,1,1,1,1]} : f32[1]
}
---- INVALID_ARGUMENT
line 2: a shape has at most 8 dimensions
==== a name that is taken
graph build "g" {
  %1 = no_op() # "a/b"
  %2 = no_op() # "a/b"
}
---- INVALID_ARGUMENT
the name 'a/b' is taken by an op before
line 3 of the graph text
==== a build graph in a graph
graph build "g" {
  %1 = call() (graph build "h" {
  })
}
---- INVALID_ARGUMENT
line 2: found 'build', expected function, region or lowered
==== a capture of what is not there
graph build "g" {
  %1 = call() (graph function "f" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} captures (%1) : f32[]
  })
}
---- INVALID_ARGUMENT
line 3: %1:0 is no output of an op before this place in graph 'g'
==== the same value captured twice
graph function "f" {
  %1 = parameter() {dtype = f32, shape = shape[], index = 0} captures (%1) : f32[]
  %2 = parameter() {dtype = f32, shape = shape[], index = 1} captures (%1) : f32[]
}
---- INVALID_ARGUMENT
another parameter captures this value already
line 3 of the graph text
==== a declared parameter after a capture
graph function "f" {
  %1 = parameter() {dtype = f32, shape = shape[], index = 0} captures (%1) : f32[]
  %2 = parameter() {dtype = f32, shape = shape[], index = 1} : f32[]
}
---- INVALID_ARGUMENT
a declared parameter after one that captures
==== only parameters capture
graph function "f" {
  %1 = no_op() captures (%1)
}
---- INVALID_ARGUMENT
only an op 'parameter' captures
==== a collection of a function
graph function "f" {
}
collection "losses" = op %1
---- INVALID_ARGUMENT
line 3: collection "losses" of a graph that is no build graph
==== a collection before its graph
collection "losses" = op %1
graph build "g" {
}
---- INVALID_ARGUMENT
line 1: found 'collection', expected 'graph'
==== a collection without a name
graph build "g" {
}
collection losses = op %1
---- INVALID_ARGUMENT
line 3: found 'losses', expected a collection's name
==== a collection of nothing
graph build "g" {
}
collection "losses" =
---- INVALID_ARGUMENT
line 4: the text ends, expected '%'
==== a collection of an op that there is not
graph build "g" {
  %1 = no_op()
}
collection "ops" = op %1,
  op %2
---- INVALID_ARGUMENT
line 5: op %2 of a collection is no op of graph 'g'
==== a collection of an output of an op
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
}
collection "ops" = op %1:1
---- INVALID_ARGUMENT
line 4: op %1 of a collection is no op
==== a collection of a value that there is not
graph build "g" {
  %1 = no_op()
}
collection "losses" = %1
---- INVALID_ARGUMENT
line 4: %1:0 is no output of an op
==== a collection of a variable that there is not
graph build "g" {
}
collection "variables" = @"w"
---- INVALID_ARGUMENT
line 3: a collection has a variable that is not declared before the graph
==== a collection that has something twice
variable @"w" : f32[]
graph build "g" {
}
collection "variables" = @"w",
  @"w"
---- INVALID_ARGUMENT
line 5: entry 2 of collection "variables" is one before it
==== a collection that is there twice
variable @"w" : f32[]
graph build "g" {
}
collection "variables" = @"w"
collection "variables" = @"w"
---- INVALID_ARGUMENT
line 5: collection "variables" is there twice
==== something behind a collection
variable @"w" : f32[]
graph build "g" {
}
collection "variables" = @"w" @"w"
---- INVALID_ARGUMENT
line 4: found '@', expected the end of the text
==== a shape that is refused is named by its own line
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2]} # "x" : f32[9223372036854775807]


  %2 = constant() {value = f32[] [1]} # "one" : f32[]
}
---- INVALID_ARGUMENT
line 2: in this shape
-1 (? in a text) for unknown
==== a variable's shape, too
variable @"w" : f32[9223372036854775807]


graph build "g" {
}
---- INVALID_ARGUMENT
line 1: in this shape
==== and one in an attribute
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[9223372036854775807]

  } # "x" : f32[?]
}
---- INVALID_ARGUMENT
line 2: in this shape
