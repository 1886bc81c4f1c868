// Defines the conversion between TensorProto and Tensor. Internal to the frontend.
#pragma once

#include "frontend/ExternalData.h"
#include "frontend/Proto.h"

#include "ir/Tensor.h"

namespace tenon::frontend {

/// The tensor that `proto` holds, in whichever of its fields. The size of the data is checked
/// against the shape before anything is allocated. None with a message on error.
llvm::Optional<Tensor> toTensor(const onnx::TensorProto &proto, const ExternalFolder &folder,
                                std::string &error);
/// A sparse tensor, made dense.
llvm::Optional<Tensor> toTensor(const onnx::SparseTensorProto &proto, const ExternalFolder &folder,
                                std::string &error);

void fromTensor(const Tensor &tensor, onnx::TensorProto &proto);

/// The element type of an ONNX code; None with a message for unknown ones.
llvm::Optional<Element> toElement(int code, std::string &error);

/// Product of `dims`; None when one is negative or the product exceeds the element limit.
llvm::Optional<int64_t> countElements(llvm::ArrayRef<int64_t> dims);

} // namespace tenon::frontend
