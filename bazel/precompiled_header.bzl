"""A header that is parsed once for all sources that begin with it."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    # The compiler takes NAME.h.gch where it would read NAME.h, which is empty.
    header = ctx.actions.declare_file(ctx.attr.name + ".h")
    ctx.actions.write(header, "")
    made = [header]
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compiler = cc_common.get_tool_for_action(
        feature_configuration = features,
        action_name = "c++-compile",
    )
    if compiler.endswith("gcc"):
        parsed = ctx.actions.declare_file(ctx.attr.name + ".h.gch")
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            source_file = ctx.file.src.path,
            output_file = parsed.path,
            quote_include_directories = depset(["."]),
            use_pic = True,
            user_compile_flags = ctx.fragments.cpp.copts +
                                 ctx.fragments.cpp.cxxopts +
                                 ctx.attr.copts + ["-x", "c++-header"],
        )
        ctx.actions.run(
            executable = compiler,
            arguments = cc_common.get_memory_inefficient_command_line(
                feature_configuration = features,
                action_name = "c++-compile",
                variables = variables,
            ),
            inputs = depset([ctx.file.src] + ctx.files.hdrs, transitive = [toolchain.all_files]),
            outputs = [parsed],
            env = cc_common.get_environment_variables(
                feature_configuration = features,
                action_name = "c++-compile",
                variables = variables,
            ),
            mnemonic = "CppPrecompile",
            progress_message = "Precompiling " + ctx.file.src.short_path,
        )
        made.append(parsed)
    context = cc_common.create_compilation_context(
        headers = depset(made),
        quote_includes = depset([ctx.bin_dir.path]),
    )
    return [CcInfo(compilation_context = context)]

# A library whose only content is the header `src`, of headers of the system and
# of `hdrs`, parsed in advance by gcc with the build's flags and `copts`. What depends on it
# compiles with `-include PACKAGE/NAME.h` and the same flags. With others, and
# under other compilers, it begins with nothing.
precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "src": attr.label(allow_single_file = True, mandatory = True),
        "hdrs": attr.label_list(allow_files = True),
        "copts": attr.string_list(),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
