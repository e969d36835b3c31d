"""C++ code from .proto files by the machine's protoc and grpc_cpp_plugin."""

def sluice_proto_library(name, srcs, deps = [], grpc = False, visibility = None):
    """A cc_library `name` of the messages (and services) in `srcs`.

    Args:
      name: of the library.
      srcs: .proto files of this package.
      deps: other sluice_proto_library targets these files import.
      grpc: whether the files declare services.
      visibility: as usual.
    """
    native.filegroup(
        name = name + "_protos",
        srcs = srcs + [d + "_protos" for d in deps],
        visibility = visibility,
    )
    outs_h = [s.replace(".proto", ".pb.h") for s in srcs]
    outs_cc = [s.replace(".proto", ".pb.cc") for s in srcs]
    plugin = ""
    if grpc:
        outs_h += [s.replace(".proto", ".grpc.pb.h") for s in srcs]
        outs_cc += [s.replace(".proto", ".grpc.pb.cc") for s in srcs]
        plugin = ("--grpc_out=$(GENDIR) " +
                  "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin ")
    native.genrule(
        name = name + "_generate",
        srcs = [":" + name + "_protos"],
        outs = outs_h + outs_cc,
        cmd = "/usr/bin/protoc -I. --cpp_out=$(GENDIR) " + plugin +
              " ".join(["$(location %s)" % s for s in srcs]),
        tools = srcs,
    )
    native.cc_library(
        name = name,
        srcs = outs_cc,
        hdrs = outs_h,
        visibility = visibility,
        deps = deps + ["//third_party:protobuf"] +
               (["//third_party:grpc"] if grpc else []),
    )
