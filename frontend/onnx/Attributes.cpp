// Implements the check of attributes. ONNX's own operators are in Attributes.def; here are those of
// ONNX Runtime, by what the importers read, and the attributes that they take with some values
// only.
#include "frontend/onnx/Attributes.h"

#include "frontend/GraphImporter.h"
#include "frontend/onnx/Table.h"

#include "ir/Suggestion.h"

#include "llvm/ADT/StringExtras.h"

#include "onnx-ml.pb.h"

#include <algorithm>

namespace tenon::frontend {
namespace {

using Proto = onnx::AttributeProto;

struct AttributeRow {
  llvm::StringRef domain, op, name;
  Proto::AttributeType type;
  int since, until; // versions of the operator set, inclusive
  int operand;      // what later versions have in its place; -1: nothing
};

const AttributeRow kOnnxRows[] = {
#define ATTRIBUTE(domain, op, name, type, since, until, operand)                                   \
  {domain, op, name, Proto::type, since, until, operand},
#include "frontend/onnx/Attributes.def"
#undef ATTRIBUTE
};

struct RuntimeRow {
  llvm::StringRef domain, op, name;
  Proto::AttributeType type;
  int until = kNewest;
};

constexpr llvm::StringLiteral kMicrosoft = "com.microsoft";

/// ONNX Runtime's operators; those without attributes have no row.
const RuntimeRow kRuntimeRows[] = {
    {"", "LayerNormalization", "axis", Proto::INT, 16},
    {"", "LayerNormalization", "epsilon", Proto::FLOAT, 16},
    {"", "LayerNormalization", "stash_type", Proto::INT, 16},
    {"", "SimplifiedLayerNormalization", "axis", Proto::INT},
    {"", "SimplifiedLayerNormalization", "epsilon", Proto::FLOAT},
    {"", "SimplifiedLayerNormalization", "stash_type", Proto::INT},
    {kMicrosoft, "Attention", "do_rotary", Proto::INT},
    {kMicrosoft, "Attention", "mask_filter_value", Proto::FLOAT},
    {kMicrosoft, "Attention", "num_heads", Proto::INT},
    {kMicrosoft, "Attention", "past_present_share_buffer", Proto::INT},
    {kMicrosoft, "Attention", "qkv_hidden_sizes", Proto::INTS},
    {kMicrosoft, "Attention", "rotary_embedding_dim", Proto::INT},
    {kMicrosoft, "Attention", "scale", Proto::FLOAT},
    {kMicrosoft, "Attention", "unidirectional", Proto::INT},
    {kMicrosoft, "BiasDropout", "seed", Proto::INT},
    {kMicrosoft, "BiasSoftmax", "axis", Proto::INT},
    {kMicrosoft, "BiasSoftmax", "is_inner_broadcast", Proto::INT},
    {kMicrosoft, "CDist", "metric", Proto::STRING},
    {kMicrosoft, "CausalConvWithState", "activation", Proto::STRING},
    {kMicrosoft, "CausalConvWithState", "ndim", Proto::INT},
    {kMicrosoft, "CausalConvWithState", "state_window", Proto::INT},
    {kMicrosoft, "DecoderMaskedMultiHeadAttention", "mask_filter_value", Proto::FLOAT},
    {kMicrosoft, "DecoderMaskedMultiHeadAttention", "num_heads", Proto::INT},
    {kMicrosoft, "DecoderMaskedMultiHeadAttention", "output_qk", Proto::INT},
    {kMicrosoft, "DecoderMaskedMultiHeadAttention", "past_present_share_buffer", Proto::INT},
    {kMicrosoft, "DecoderMaskedMultiHeadAttention", "scale", Proto::FLOAT},
    {kMicrosoft, "DecoderMaskedSelfAttention", "do_rotary", Proto::INT},
    {kMicrosoft, "DecoderMaskedSelfAttention", "mask_filter_value", Proto::FLOAT},
    {kMicrosoft, "DecoderMaskedSelfAttention", "num_heads", Proto::INT},
    {kMicrosoft, "DecoderMaskedSelfAttention", "past_present_share_buffer", Proto::INT},
    {kMicrosoft, "DecoderMaskedSelfAttention", "scale", Proto::FLOAT},
    {kMicrosoft, "DequantizeLinear", "axis", Proto::INT},
    {kMicrosoft, "EmbedLayerNormalization", "epsilon", Proto::FLOAT},
    {kMicrosoft, "EmbedLayerNormalization", "mask_index_type", Proto::INT},
    {kMicrosoft, "FusedConv", "activation", Proto::STRING},
    {kMicrosoft, "FusedConv", "activation_params", Proto::FLOATS},
    {kMicrosoft, "FusedGemm", "activation", Proto::STRING},
    {kMicrosoft, "FusedGemm", "activation_alpha", Proto::FLOAT},
    {kMicrosoft, "FusedGemm", "activation_beta", Proto::FLOAT},
    {kMicrosoft, "FusedGemm", "activation_gamma", Proto::FLOAT},
    {kMicrosoft, "FusedMatMul", "alpha", Proto::FLOAT},
    {kMicrosoft, "FusedMatMul", "transA", Proto::INT},
    {kMicrosoft, "FusedMatMul", "transB", Proto::INT},
    {kMicrosoft, "FusedMatMul", "transBatchA", Proto::INT},
    {kMicrosoft, "FusedMatMul", "transBatchB", Proto::INT},
    {kMicrosoft, "FusedMatMulActivation", "activation", Proto::STRING},
    {kMicrosoft, "FusedMatMulActivation", "activation_alpha", Proto::FLOAT},
    {kMicrosoft, "FusedMatMulActivation", "activation_beta", Proto::FLOAT},
    {kMicrosoft, "FusedMatMulActivation", "activation_gamma", Proto::FLOAT},
    {kMicrosoft, "GatedRelativePositionBias", "num_heads", Proto::INT},
    {kMicrosoft, "GatherBlockQuantized", "bits", Proto::INT},
    {kMicrosoft, "GatherBlockQuantized", "block_size", Proto::INT},
    {kMicrosoft, "GatherBlockQuantized", "gather_axis", Proto::INT},
    {kMicrosoft, "GatherBlockQuantized", "quantize_axis", Proto::INT},
    {kMicrosoft, "GridSample", "align_corners", Proto::INT},
    {kMicrosoft, "GridSample", "mode", Proto::STRING},
    {kMicrosoft, "GridSample", "padding_mode", Proto::STRING},
    {kMicrosoft, "GroupNorm", "activation", Proto::INT},
    {kMicrosoft, "GroupNorm", "channels_last", Proto::INT},
    {kMicrosoft, "GroupNorm", "epsilon", Proto::FLOAT},
    {kMicrosoft, "GroupNorm", "groups", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "causal", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "do_rotary", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "k_norm_epsilon", Proto::FLOAT},
    {kMicrosoft, "GroupQueryAttention", "k_quant_type", Proto::STRING},
    {kMicrosoft, "GroupQueryAttention", "kv_cache_bit_width", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "kv_num_heads", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "local_window_size", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "num_heads", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "q_norm_epsilon", Proto::FLOAT},
    {kMicrosoft, "GroupQueryAttention", "qk_norm_epsilon", Proto::FLOAT},
    {kMicrosoft, "GroupQueryAttention", "qk_output", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "rotary_interleaved", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "scale", Proto::FLOAT},
    {kMicrosoft, "GroupQueryAttention", "sliding_window_cache", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "smooth_softmax", Proto::INT},
    {kMicrosoft, "GroupQueryAttention", "softcap", Proto::FLOAT},
    {kMicrosoft, "GroupQueryAttention", "v_quant_type", Proto::STRING},
    {kMicrosoft, "MatMulBlockQuantizedFp8Weight", "block_size", Proto::INT},
    {kMicrosoft, "MatMulBnb4", "K", Proto::INT},
    {kMicrosoft, "MatMulBnb4", "N", Proto::INT},
    {kMicrosoft, "MatMulBnb4", "block_size", Proto::INT},
    {kMicrosoft, "MatMulBnb4", "quant_type", Proto::INT},
    {kMicrosoft, "MatMulBnb4", "training_mode", Proto::INT},
    {kMicrosoft, "MatMulBnb4", "transB", Proto::INT},
    {kMicrosoft, "MatMulNBits", "K", Proto::INT},
    {kMicrosoft, "MatMulNBits", "N", Proto::INT},
    {kMicrosoft, "MatMulNBits", "accuracy_level", Proto::INT},
    {kMicrosoft, "MatMulNBits", "bits", Proto::INT},
    {kMicrosoft, "MatMulNBits", "block_size", Proto::INT},
    {kMicrosoft, "MatMulNBits", "weight_prepacked", Proto::INT},
    {kMicrosoft, "MoE", "activation_alpha", Proto::FLOAT},
    {kMicrosoft, "MoE", "activation_beta", Proto::FLOAT},
    {kMicrosoft, "MoE", "activation_type", Proto::STRING},
    {kMicrosoft, "MoE", "k", Proto::INT},
    {kMicrosoft, "MoE", "normalize_routing_weights", Proto::INT},
    {kMicrosoft, "MoE", "swiglu_fusion", Proto::INT},
    {kMicrosoft, "MoE", "swiglu_limit", Proto::FLOAT},
    {kMicrosoft, "MoE", "swiglu_limit_after_activation", Proto::INT},
    {kMicrosoft, "MoE", "use_sparse_mixer", Proto::INT},
    {kMicrosoft, "PackedAttention", "num_heads", Proto::INT},
    {kMicrosoft, "PackedAttention", "qkv_hidden_sizes", Proto::INTS},
    {kMicrosoft, "PackedAttention", "scale", Proto::FLOAT},
    {kMicrosoft, "PackedMultiHeadAttention", "mask_filter_value", Proto::FLOAT},
    {kMicrosoft, "PackedMultiHeadAttention", "num_heads", Proto::INT},
    {kMicrosoft, "PackedMultiHeadAttention", "scale", Proto::FLOAT},
    {kMicrosoft, "Pad", "mode", Proto::STRING},
    {kMicrosoft, "QMoE", "accuracy_level", Proto::INT},
    {kMicrosoft, "QMoE", "activation_alpha", Proto::FLOAT},
    {kMicrosoft, "QMoE", "activation_beta", Proto::FLOAT},
    {kMicrosoft, "QMoE", "activation_type", Proto::STRING},
    {kMicrosoft, "QMoE", "block_size", Proto::INT},
    {kMicrosoft, "QMoE", "expert_weight_bits", Proto::INT},
    {kMicrosoft, "QMoE", "fc1_expert_weight_bits", Proto::INT},
    {kMicrosoft, "QMoE", "fc2_expert_weight_bits", Proto::INT},
    {kMicrosoft, "QMoE", "fc3_expert_weight_bits", Proto::INT},
    {kMicrosoft, "QMoE", "k", Proto::INT},
    {kMicrosoft, "QMoE", "normalize_routing_weights", Proto::INT},
    {kMicrosoft, "QMoE", "quant_type", Proto::STRING},
    {kMicrosoft, "QMoE", "swiglu_fusion", Proto::INT},
    {kMicrosoft, "QMoE", "swiglu_limit", Proto::FLOAT},
    {kMicrosoft, "QMoE", "swiglu_limit_after_activation", Proto::INT},
    {kMicrosoft, "QMoE", "use_sparse_mixer", Proto::INT},
    {kMicrosoft, "QMoE", "weights_prepacked", Proto::INT},
    {kMicrosoft, "MultiHeadAttention", "mask_filter_value", Proto::FLOAT},
    {kMicrosoft, "MultiHeadAttention", "num_heads", Proto::INT},
    {kMicrosoft, "MultiHeadAttention", "scale", Proto::FLOAT},
    {kMicrosoft, "MultiHeadAttention", "unidirectional", Proto::INT},
    {kMicrosoft, "NhwcFusedConv", "activation", Proto::STRING},
    {kMicrosoft, "NhwcFusedConv", "activation_params", Proto::FLOATS},
    {kMicrosoft, "QEmbedLayerNormalization", "epsilon", Proto::FLOAT},
    {kMicrosoft, "QGemm", "alpha", Proto::FLOAT},
    {kMicrosoft, "QGemm", "transA", Proto::INT},
    {kMicrosoft, "QGemm", "transB", Proto::INT},
    {kMicrosoft, "QLinearAveragePool", "auto_pad", Proto::STRING},
    {kMicrosoft, "QLinearAveragePool", "ceil_mode", Proto::INT},
    {kMicrosoft, "QLinearAveragePool", "channels_last", Proto::INT},
    {kMicrosoft, "QLinearAveragePool", "count_include_pad", Proto::INT},
    {kMicrosoft, "QLinearAveragePool", "kernel_shape", Proto::INTS},
    {kMicrosoft, "QLinearAveragePool", "pads", Proto::INTS},
    {kMicrosoft, "QLinearAveragePool", "strides", Proto::INTS},
    {kMicrosoft, "QLinearConcat", "axis", Proto::INT},
    {kMicrosoft, "QLinearConv", "channels_last", Proto::INT},
    {kMicrosoft, "QLinearGlobalAveragePool", "channels_last", Proto::INT},
    {kMicrosoft, "QLinearLeakyRelu", "alpha", Proto::FLOAT},
    {kMicrosoft, "QLinearSoftmax", "axis", Proto::INT},
    {kMicrosoft, "QLinearSoftmax", "opset", Proto::INT},
    {kMicrosoft, "QuantizeLinear", "axis", Proto::INT},
    {kMicrosoft, "QuickGelu", "alpha", Proto::FLOAT},
    {kMicrosoft, "RelativePositionBias", "is_bidirectional", Proto::INT},
    {kMicrosoft, "RelativePositionBias", "max_distance", Proto::INT},
    {kMicrosoft, "RotaryEmbedding", "interleaved", Proto::INT},
    {kMicrosoft, "RotaryEmbedding", "is_packed_batching", Proto::INT},
    {kMicrosoft, "RotaryEmbedding", "num_heads", Proto::INT},
    {kMicrosoft, "RotaryEmbedding", "rotary_embedding_dim", Proto::INT},
    {kMicrosoft, "RotaryEmbedding", "scale", Proto::FLOAT},
    {kMicrosoft, "SkipLayerNormalization", "epsilon", Proto::FLOAT},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", "epsilon", Proto::FLOAT},
    {kMicrosoft, "UnfoldTensor", "dim", Proto::INT},
    {kMicrosoft, "UnfoldTensor", "size", Proto::INT},
    {kMicrosoft, "UnfoldTensor", "step", Proto::INT},
};

/// Operators that also have the attributes of another one, of whatever version.
struct LikeRow {
  llvm::StringRef op, domainOfOther, other;
};
/// Of com.microsoft. Those of com.ms.internal.nhwc are ai.onnx's of the same names.
const LikeRow kLikeRows[] = {
    {"DynamicQuantizeLSTM", "", "LSTM"},
    {"FusedConv", "", "Conv"},
    {"FusedGemm", "", "Gemm"},
    {"FusedMatMulActivation", kMicrosoft, "FusedMatMul"},
    {"NhwcConv", "", "Conv"},
    {"NhwcFusedConv", "", "Conv"},
    {"NhwcMaxPool", "", "MaxPool"},
    {"QAttention", kMicrosoft, "Attention"},
    {"QLinearConv", "", "QLinearConv"},
    {"QLinearReduceMean", "", "ReduceMean"},
    {"SkipGroupNorm", kMicrosoft, "GroupNorm"},
    {"TransposeMatMul", kMicrosoft, "FusedMatMul"},
    {"Trilu", "", "Trilu"},
};

/// Attributes of which the importers honour some values only.
struct Limit {
  llvm::StringRef domain, op, name;
  llvm::StringRef values; // as `spelled` gives them, with | between
  llvm::StringRef remedy;
};

const Limit kLimits[] = {
    {"", "QuantizeLinear", "precision", "0|1", "leave it out, so that the scale's type decides"},
    {"", "StringNormalizer", "locale", "'en_US'|'en_US.UTF-8'|'C'|'C.UTF-8'|''",
     "change case before the model runs"},
    {kMicrosoft, "Attention", "do_rotary", "0", "write the rotation as RotaryEmbedding"},
    {kMicrosoft, "Attention", "past_present_share_buffer", "0",
     "export past and present as tensors of their own; --state joins them"},
    {kMicrosoft, "CausalConvWithState", "ndim", "1", "join further dimensions with the batch"},
    {kMicrosoft, "CausalConvWithState", "state_window", "0",
     "export with the last state alone, without those to go back to"},
    {kMicrosoft, "DecoderMaskedSelfAttention", "do_rotary", "0",
     "write the rotation as RotaryEmbedding"},
    {kMicrosoft, "GroupQueryAttention", "qk_output", "0", "export without the scores as a result"},
    {kMicrosoft, "QAttention", "do_rotary", "0", "write the rotation as RotaryEmbedding"},
    {kMicrosoft, "QAttention", "past_present_share_buffer", "0",
     "export past and present as tensors of their own; --state joins them"},
    {kMicrosoft, "MatMulNBits", "weight_prepacked", "0",
     "export the weights unpacked, as ONNX Runtime's quantiser writes them"},
    {kMicrosoft, "MoE", "swiglu_limit_after_activation", "0", "clamp before the activation"},
    {kMicrosoft, "MoE", "use_sparse_mixer", "0", "write the router out as TopK and Softmax"},
    {kMicrosoft, "QMoE", "quant_type", "'int'", "export weights of integers"},
    {kMicrosoft, "QMoE", "swiglu_limit_after_activation", "0", "clamp before the activation"},
    {kMicrosoft, "QMoE", "use_sparse_mixer", "0", "write the router out as TopK and Softmax"},
    {kMicrosoft, "QMoE", "weights_prepacked", "-1|0",
     "export the weights unpacked (qmoe_weights_prepacked=0)"},
    {kMicrosoft, "RotaryEmbedding", "is_packed_batching", "0",
     "pad the batch, so that each entry and token has its position"},
};

const char *described(Proto::AttributeType type) {
  switch (type) {
  case Proto::INT: return "an integer";
  case Proto::FLOAT: return "a float";
  case Proto::STRING: return "a string";
  case Proto::INTS: return "a list of integers";
  case Proto::FLOATS: return "a list of floats";
  case Proto::STRINGS: return "a list of strings";
  case Proto::TENSOR: return "a tensor";
  case Proto::TENSORS: return "a list of tensors";
  case Proto::GRAPH: return "a graph";
  case Proto::GRAPHS: return "a list of graphs";
  case Proto::SPARSE_TENSOR: return "a sparse tensor";
  case Proto::SPARSE_TENSORS: return "a list of sparse tensors";
  case Proto::TYPE_PROTO: return "a type";
  case Proto::TYPE_PROTOS: return "a list of types";
  default: return "nothing";
  }
}

/// A number or a string as messages show it; empty for the rest.
std::string spelled(const Proto &a) {
  if (a.type() == Proto::INT)
    return std::to_string(a.i());
  return a.type() == Proto::STRING ? quoted(a.s()) : "";
}

/// What the tables know of one operator.
struct Known {
  llvm::SmallVector<AttributeRow, 16> rows;
  bool any(llvm::StringRef name) const {
    return llvm::any_of(rows, [&](const AttributeRow &row) { return row.name == name; });
  }
};

Known rowsOf(llvm::StringRef domain, llvm::StringRef op) {
  Known known;
  const auto key = std::make_pair(domain, op);
  const auto less = [](const auto &row, const auto &k) {
    return std::make_pair(row.domain, row.op) < k;
  };
  const auto *at = std::lower_bound(std::begin(kOnnxRows), std::end(kOnnxRows), key, less);
  for (; at != std::end(kOnnxRows) && at->domain == domain && at->op == op; ++at)
    known.rows.push_back(*at);
  for (const RuntimeRow &own : kRuntimeRows)
    if (own.domain == domain && own.op == op)
      known.rows.push_back({own.domain, own.op, own.name, own.type, 1, own.until, -1});
  auto addThoseOf = [&](llvm::StringRef otherDomain, llvm::StringRef other) {
    for (const AttributeRow &row : rowsOf(otherDomain, other).rows)
      if (!known.any(row.name))
        known.rows.push_back({domain, op, row.name, row.type, 1, kNewest, -1});
  };
  if (domain == "com.ms.internal.nhwc")
    addThoseOf("", op);
  if (domain == kMicrosoft)
    for (const LikeRow &like : kLikeRows)
      if (like.op == op)
        addThoseOf(like.domainOfOther, like.other);
  return known;
}

/// "opset 13", "version 2 of ai.onnx.ml", "opsets 1 to 12".
std::string versionName(llvm::StringRef domain, int64_t first, int64_t last) {
  const std::string of = domain.empty() ? "" : " of " + domain.str();
  const std::string noun =
      (domain.empty() ? "opset" : "version") + std::string(first < last ? "s " : " ");
  return noun + std::to_string(first) + (first < last ? " to " + std::to_string(last) : "") + of;
}

/// The attribute is of other versions: which, and what to do.
std::string otherVersion(const Node &n, llvm::StringRef domain, const Known &known,
                         llvm::StringRef name) {
  std::string spans, remedy;
  for (const AttributeRow &row : known.rows) {
    if (row.name != name)
      continue;
    spans += spans.empty() ? "" : " and ";
    spans += row.until == kNewest ? "since " + versionName(domain, row.since, row.since)
                                  : "in " + versionName(domain, row.since, row.until);
    if (n.opset > row.until && row.operand >= 0)
      remedy = "give it as operand " + std::to_string(row.operand) + ", or";
    else if (n.opset > row.until || remedy.empty())
      remedy = "take it away, or";
  }
  return "attribute " + name.str() + ": " + n.op().str() + " has it " + spans +
         ", and the model imports " + versionName(domain, n.opset, n.opset) + "; " + remedy +
         " import a version that has it";
}

/// No version has the attribute: what the operator has, and what comes near.
std::string unknown(const Node &n, const Known &known, llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef, 16> names;
  for (const AttributeRow &row : known.rows)
    if (n.opset >= row.since && n.opset <= row.until)
      names.push_back(row.name);
  return "attribute " + quoted(name) + " is unknown to " + n.op().str() + ", which has " +
         (names.empty() ? "none" : llvm::join(names, ", ")) + "; correct the name or take it away" +
         didYouMean(name, names);
}

/// Reports an attribute of another type than the operator's.
bool checkType(const Node &n, const Proto &a, llvm::ArrayRef<AttributeRow> rows,
               llvm::StringRef name) {
  const Proto::AttributeType type = a.type();
  // Files older than IR version 2 have no types.
  if (!a.has_type() || type == Proto::UNDEFINED)
    return true;
  std::string expected;
  for (const AttributeRow &row : rows) {
    if (row.name != name || n.opset < row.since || n.opset > row.until)
      continue;
    if (row.type == type)
      return true;
    expected = described(row.type);
  }
  const std::string value = spelled(a);
  n.error("attribute " + name.str() + ": expected " + expected + ", found " + described(type) +
          (value.empty() ? "" : " (" + value + ")") + "; write it as " + expected +
          (type == Proto::INT && expected == "a float" ? " (" + value + ".0)" : ""));
  return false;
}

/// Reports a value that the importer does not honour.
bool checkValue(const Node &n, const Proto &a, llvm::StringRef domain, llvm::StringRef name) {
  for (const Limit &limit : kLimits) {
    if (limit.domain != domain || limit.op != n.op() || limit.name != name)
      continue;
    llvm::SmallVector<llvm::StringRef, 4> values;
    limit.values.split(values, '|');
    const std::string value = spelled(a);
    if (llvm::is_contained(values, value))
      return true;
    n.error("attribute " + name.str() + " = " + value + " is not supported: expected " +
            oneOf(values) + "; " + limit.remedy.str());
    return false;
  }
  return true;
}

} // namespace

bool checkAttributes(const Node &n) {
  const std::string domain = canonicalDomain(n.proto.domain()).str();
  const Known known = rowsOf(domain, n.op());
  llvm::StringSet<> seen;
  for (const Proto &own : n.proto.attribute()) {
    const llvm::StringRef name = own.name();
    if (name.startswith("__")) // ONNX leaves these names to tools; they mean nothing
      continue;
    if (!seen.insert(name).second) {
      n.error("attribute " + quoted(name) + " is given twice: expected one value; take one away");
      return false;
    }
    if (llvm::none_of(known.rows, [&](const AttributeRow &row) {
          return row.name == name && n.opset >= row.since && n.opset <= row.until;
        })) {
      n.error(known.any(name) ? otherVersion(n, domain, known, name) : unknown(n, known, name));
      return false;
    }
    const Proto *a = n.attr(name); // null: a function's parameter that the call leaves out
    if (a && (!checkType(n, *a, known.rows, name) || !checkValue(n, *a, domain, name)))
      return false;
  }
  return true;
}

} // namespace tenon::frontend
